"""Every build that this processor can run."""

import hatch_build
import pytest

from gradwatch.native import _library, why_not


@pytest.fixture(scope="session")
def builds():
    """The builds for this processor, from the baseline on.

    Where there are none although they could have been made, the tests fail: they are
    not to be skipped in silence.
    """
    if not (_library.DIRECTORY / "builds.json").exists():
        if hatch_build.compilers():
            pytest.fail("The library is not built: run `python hatch_build.py`.")
        pytest.skip(f"no native sweep: {why_not()}")
    name, listed = _library._platform(), _library._builds(_library.DIRECTORY)
    first = _library._open(_library.DIRECTORY, listed, name)
    levels = [f"{name}-v{n}" for n in range(2, first.functions.gw_level() + 1)]
    better = [level for level in levels if level in listed]
    return [
        first,
        *(_library._open(_library.DIRECTORY, listed, level) for level in better),
    ]
