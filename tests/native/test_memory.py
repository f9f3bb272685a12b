"""No element outside a tensor is read or written, by any function."""

import mmap
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src" / "gradwatch" / "native"
SANITIZE = (
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all"),
    *("-g", "-O1", "-std=c11", "-fno-trapping-math", "-fno-math-errno"),
)


@pytest.mark.parametrize("level", [1, 3, 4])
def test_sanitizers_see_nothing_wrong(builds, tmp_path, level):
    """Every function, type and size, at odd addresses, with NaN and denormals."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("needs gcc or clang, for their sanitizers")
    if level > 1 and level > builds[0].functions.gw_level():
        pytest.skip(f"this processor has not level {level} of x86-64")
    target = [f"-march=x86-64-v{level}"] if level > 1 else []
    files = [*map(str, SOURCES.glob("*.c")), *map(str, HERE.glob("*.c"))]
    out = tmp_path / "memory"
    line = [compiler, *SANITIZE, *target, f"-I{SOURCES}", *files, "-o", str(out), "-lm"]
    made = subprocess.run(line, capture_output=True, text=True, check=False)
    if made.returncode and "-fsanitize" in made.stderr + made.stdout:
        pytest.skip("this compiler has no sanitizers")
    assert made.returncode == 0, made.stderr
    done = subprocess.run([out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "19716 calls\n"


# The tensor ends where a page ends, and the next page must not be touched.
GUARDED = """
import ctypes, mmap, sys
import numpy as np
from gradwatch.native import TensorLayout, _library
directory = _library.DIRECTORY
build = _library._open(directory, _library._builds(directory), sys.argv[1])
page = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
pages = 1 + (66_000 * 8) // page
memory = mmap.mmap(-1, (pages + 2) * page)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
for guard in (start, start + (pages + 1) * page):
    assert libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
ends = start + (pages + 1) * page
for dtype, item in (("float32", 4), ("float64", 8), ("float16", 2), ("bfloat16", 2)):
    for size in (1, 5, 17, 255, 1025, 2047, 2048, 2049, 4103, 65536, 65999):
        layout = TensorLayout([(size, dtype)], build)
        for address in (start + page, ends - size * item):
            layout.measure([address], 3.0, True)
            layout.measure([address], 1.0, True)
            layout.norms([address])
            layout.moves(layout.sample([address]), [address])
print("done")
"""


def test_the_shipped_builds_stay_within_their_pages(builds):
    """A page before and one behind the tensor may not be read: a touch is a crash."""
    if not (sys.platform.startswith("linux") and hasattr(mmap, "PAGESIZE")):
        pytest.skip("needs mprotect")
    for build in builds:
        done = subprocess.run(
            [sys.executable, "-c", GUARDED, build.name],
            capture_output=True,
            text=True,
            check=False,
            env={"PYTHONPATH": str(SOURCES.parents[1])},
        )
        assert done.stdout == "done\n", f"{build.name}: {done.returncode} {done.stderr}"
