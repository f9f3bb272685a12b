"""Loading: the best build that works, or one reason, and never an exception."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import hatch_build
import numpy as np
import pytest

from gradwatch._errors import GradwatchError
from gradwatch.native import TensorLayout, _library, address, library, why_not

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(builds, tmp_path, monkeypatch):
    """A copy of the builds to damage; it is what the process loads."""
    directory = tmp_path / "lib"
    shutil.copytree(_library.DIRECTORY, directory)
    monkeypatch.setattr(_library, "DIRECTORY", directory)
    monkeypatch.delenv("GRADWATCH_NATIVE", raising=False)
    _library._loaded.cache_clear()
    yield directory
    monkeypatch.undo()
    _library._loaded.cache_clear()


def replace(directory, change):
    """Rewrites every build by `change`, and the list with it."""
    path = directory / "builds.json"
    listed = json.loads(path.read_text())
    for entry in listed.values():
        content = change((directory / entry["file"]).read_bytes())
        (directory / entry["file"]).write_bytes(content)
        entry.update(size=len(content), crc32=zlib.crc32(content))
    path.write_text(json.dumps(listed))


def test_the_best_build_for_the_processor_is_loaded(installed, builds):
    """There is then no reason against it."""
    assert library().name == builds[-1].name
    assert why_not() is None
    assert address("GwMeasure") > 0
    assert library() is library(), "It is loaded once."


def test_the_environment_disables_it(installed, monkeypatch):
    """`GRADWATCH_NATIVE=0` counts at every call; other values do nothing."""
    monkeypatch.setenv("GRADWATCH_NATIVE", "0")
    assert (library(), why_not()) == (None, "GRADWATCH_NATIVE=0 is set")
    with pytest.raises(GradwatchError, match="GRADWATCH_NATIVE=0 is set. Ask `gradwat"):
        TensorLayout([(1, "float32")])
    monkeypatch.setenv("GRADWATCH_NATIVE", "1")
    assert library() is not None


def damaged_list(directory):
    (directory / "builds.json").write_text("{")


def list_of_another_kind(directory):
    (directory / "builds.json").write_text("[]")


def list_without_details(directory):
    names = json.loads((directory / "builds.json").read_text())
    (directory / "builds.json").write_text(json.dumps(dict.fromkeys(names)))


def no_files(directory):
    for path in directory.glob("sweep-*"):
        path.unlink()


def truncated_files(directory):
    for path in directory.glob("sweep-*"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def wrong_architecture(directory):
    # e_machine of the ELF header: 183 is aarch64, 62 is x86-64.
    other = 62 if "aarch64" in _library._platform() else 183
    replace(directory, lambda elf: elf[:18] + bytes([other, 0]) + elf[20:])


def another_library(directory):
    from numpy._core import _multiarray_umath

    replace(directory, lambda _: Path(_multiarray_umath.__file__).read_bytes())


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (shutil.rmtree, "this installation was built without it"),
        (damaged_list, "its list of builds cannot be read ("),
        (list_of_another_kind, "its list of builds cannot be read ("),
        (list_without_details, " does not load ("),
        (no_files, " does not load ("),
        (truncated_files, " is damaged: it is not the file that was built"),
        (wrong_architecture, " does not load ("),
        (another_library, "undefined symbol: gw_version"),
    ],
)
def test_what_does_not_load_is_one_reason(installed, damage, reason):
    """The caller gets None and a sentence."""
    if damage is wrong_architecture and not sys.platform.startswith("linux"):
        pytest.skip("makes an ELF file")
    damage(installed)
    assert library() is None
    assert reason in why_not()
    assert "\n" not in why_not()


def test_another_interface_version_is_refused(installed, monkeypatch):
    """A stale build beside newer Python code."""
    monkeypatch.setattr(_library, "VERSION", 99)
    assert library() is None
    assert "has interface version 2 instead of 99" in why_not()


def test_a_platform_without_a_build_is_named(installed, monkeypatch):
    """Also a Python of 32 bits."""
    monkeypatch.setattr(_library.platform, "machine", lambda: "riscv64")
    assert library() is None
    assert why_not().startswith("there is no build for ")
    assert why_not().endswith("-riscv64")
    _library._loaded.cache_clear()
    monkeypatch.setattr(_library.struct, "calcsize", lambda _: 4)
    assert "32-bit Python" in (why_not() or "")


def test_a_better_build_that_is_damaged_leaves_the_baseline(installed, builds):
    """A slower sweep is better than none."""
    for path in installed.glob("sweep-*-v?*"):
        path.write_bytes(b"")
    assert library().name == builds[0].name


def test_a_directory_that_is_read_only_is_enough(installed):
    """Nothing is written when the library is loaded."""
    for path in installed.iterdir():
        path.chmod(0o444)
    installed.chmod(0o555)
    try:
        assert library() is not None
    finally:
        installed.chmod(0o755)


def test_two_copies_work_side_by_side(installed, builds):
    """Two versions of the package in one process."""
    array = np.array([3.0, 4.0])
    for build in (library(), builds[-1]):
        [norm] = TensorLayout([(2, "float64")], build).norms([array.ctypes.data])
        assert norm == 5.0
    assert library().address("gw_measure") != builds[-1].address("gw_measure")


FORKED = """
import os
import numpy as np
from gradwatch.native import TensorLayout, library
array = np.array([3.0, 4.0])
assert library() is not None
child = os.fork()
[norm] = TensorLayout([(2, "float64")]).norms([array.ctypes.data])
assert norm == 5.0
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_measures(builds):
    """Before and after the fork; neither needs Keras."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    env.pop("GRADWATCH_NATIVE", None)
    line = [sys.executable, "-c", FORKED]
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_layout_refuses_what_does_not_fit(builds):
    """Another type, another number of addresses, another sample."""
    with pytest.raises(GradwatchError, match="`tensors` must be .* Received: 'int32'"):
        TensorLayout([(1, "int32")], builds[0])
    layout = TensorLayout([(1, "float32")], builds[0])
    with pytest.raises(GradwatchError, match="`pointers` must hold .* 2 for 1 tensors"):
        layout.measure([0, 0])
    with pytest.raises(GradwatchError, match="`sample` must hold 8 bytes"):
        layout.moves(np.zeros(7, np.uint8), [0])


def test_without_a_compiler_the_build_goes_on(tmp_path, monkeypatch):
    """One line says why, and the directory holds no build."""
    monkeypatch.setattr(hatch_build, "compilers", dict)
    said = hatch_build.build(tmp_path / "lib", every_platform=True)
    assert said.startswith("native sweep: not built (neither ziglang nor a C compiler")
    assert list((tmp_path / "lib").iterdir()) == []
    broken = {"cc": [sys.executable, "-c", "import sys; sys.exit('no such option')"]}
    monkeypatch.setattr(hatch_build, "compilers", lambda: broken)
    said = hatch_build.build(tmp_path / "lib", every_platform=True)
    assert "not built (" in said
    assert "no such option" in said


def test_the_system_compiler_builds_for_this_machine(tmp_path, monkeypatch):
    """Where ziglang is missing."""
    command = hatch_build.compilers().get("cc")
    if command is None:
        pytest.skip("no system compiler")
    monkeypatch.setattr(hatch_build, "compilers", lambda: {"cc": command})
    said = hatch_build.build(tmp_path / "lib", every_platform=True)
    assert said.endswith(" with cc.")
    assert _library._load(tmp_path / "lib").name.startswith(_library._platform())


def test_the_build_hook_loads_as_hatchling_loads_it():
    """From its path, without an entry in `sys.modules`."""
    spec = importlib.util.spec_from_file_location("a_hook", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert "a_hook" not in sys.modules
    assert module.BUILDS[0].file == "sweep-linux-x86_64.so"
