import pytest


class Clock:
    """A clock that a test moves on."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def time(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """The writer's clock, which stands still until it is moved."""
    clock = Clock()
    monkeypatch.setattr("gradwatch.run._writer.time", clock)
    return clock
