import pytest


@pytest.fixture(autouse=True)
def seeded():
    """No model is made here, so Keras need not be reset (0.5 s) around each test."""
