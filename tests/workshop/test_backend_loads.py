"""A run on a backend that is not there fails; it does not pass on another one."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
RUN = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")


@pytest.mark.parametrize("backend", ["numpy", "tensorlow"])
def test_an_unknown_backend_fails_the_run(backend, python):
    """Neither a backend that we do not support nor a misspelt one can pass."""
    done = python(*RUN, TESTS / "workshop" / "test_rooms.py", KERAS_BACKEND=backend)
    assert done.returncode != 0
    assert "passed" not in done.stdout


def test_a_backend_that_is_not_installed_fails_the_run(python, tmp_path):
    """With a torch that cannot be imported, a torch run ends in an error."""
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    # `python -m` puts the working directory, and so this torch, first.
    done = python(*RUN, TESTS / "workshop" / "test_rooms.py", KERAS_BACKEND="torch")
    assert done.returncode != 0
    assert "no torch here" in done.stdout + done.stderr
    assert "passed" not in done.stdout
