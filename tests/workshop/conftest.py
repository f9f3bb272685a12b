"""Running Python as a user does: in another process, in an empty directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# An example takes less than a minute. This is for one that hangs: a machine that does
# ten things at once is not to fail it.
TIMEOUT = 600


@pytest.fixture
def python(tmp_path):
    """Run `python …` with the gradwatch and the backend of this test process."""
    package = Path(__file__).parents[2] / "src"

    def run(*args, **env):
        return subprocess.run(
            [sys.executable, *map(str, args)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(package), **env},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )

    return run
