"""The autopsy of one training step: where its first non-finite value comes from."""

from ._files import write_autopsy as write_autopsy
from ._result import Autopsy as Autopsy
