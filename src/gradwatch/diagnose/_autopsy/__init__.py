"""The autopsy of one training step: where its first non-finite value comes from."""

from ._result import Autopsy as Autopsy
