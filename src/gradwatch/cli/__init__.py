"""The same doors from a shell: `gradwatch --help`."""

from ._main import main as main
