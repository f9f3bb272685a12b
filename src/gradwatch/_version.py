"""The version, in its one place: hatchling reads this line for the wheel."""

__version__ = "0.1.0"
