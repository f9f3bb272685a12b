"""Builds the native sweep: a hook of hatchling, and a script of its own.

`pip install` and `python -m build` run it through the table `[tool.hatch.build.hooks]`
of pyproject.toml. A wheel gets the builds for every platform in `BUILDS`, so that it
stays one wheel for all of them; an editable install gets those of this machine.
`python hatch_build.py` builds in place for this machine, and with `--all` for all.

The compiler is the one of `ziglang`, which pip installs and which compiles for other
platforms. Without it, the system's `cc` compiles for this machine. Without either, one
line says so and the build goes on: the package works without the native sweep.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent
SOURCES = ROOT / "src" / "gradwatch" / "native"

FLAGS = (
    *("-std=c11", "-shared", "-fPIC", "-fvisibility=hidden"),
    "-O3",
    # `sqrt` need not set `errno`, and no comparison need raise an exception of the
    # processor: both let a loop become vector instructions, and change no result.
    *("-fno-math-errno", "-fno-trapping-math"),
    # One rounding for a product and a sum where the processor can: it is more exact.
    "-ffp-contract=fast",
    # -ffast-math and its parts are left out. -ffinite-math-only would remove every
    # test for NaN, and -fassociative-math gains nothing: the lanes are written out.
    *("-Wall", "-Wextra", "-g0", "-s"),  # without symbols: half the size
)


# No dataclass: hatchling runs this file without naming it in `sys.modules`.
class Build(NamedTuple):
    """One build of the library: its name, file ending, and targets of the compilers.

    `zig` holds the arguments of `zig cc`, `cc` those of a system compiler that runs on
    this platform.
    """

    name: str
    ending: str
    zig: tuple[str, ...]
    cc: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Name of the library file."""
        return f"sweep-{self.name}{self.ending}"

    @property
    def platform(self) -> str:
        """Name of the platform, without the level of the processor."""
        return re.sub("-v[34]$", "", self.name)


def _x86(name: str, ending: str, target: str, level: int = 1) -> Build:
    """Returns a build for x86-64: the baseline (SSE2), or a level from 3 on (AVX2)."""
    suffix, cpu = (f"-v{level}", f"x86_64_v{level}") if level > 1 else ("", "x86_64")
    cc = (f"-march=x86-64-v{level}",) if level > 1 else ()
    return Build(name + suffix, ending, ("-target", target, f"-mcpu={cpu}"), cc)


# From the cache, level 3 takes 0.09 ns for a float32 where the baseline takes 0.20;
# level 4 (AVX-512) takes 0.06, and from memory as long as level 3.
# glibc 2.17 is that of manylinux2014: every Linux that runs a framework has it.
BUILDS = (
    _x86("linux-x86_64", ".so", "x86_64-linux-gnu.2.17"),
    _x86("linux-x86_64", ".so", "x86_64-linux-gnu.2.17", level=3),
    _x86("linux-x86_64", ".so", "x86_64-linux-gnu.2.17", level=4),
    Build("linux-aarch64", ".so", ("-target", "aarch64-linux-gnu.2.17")),
    _x86("macos-x86_64", ".dylib", "x86_64-macos.11.0"),
    _x86("macos-x86_64", ".dylib", "x86_64-macos.11.0", level=3),
    Build("macos-arm64", ".dylib", ("-target", "aarch64-macos.11.0")),
    _x86("windows-x86_64", ".dll", "x86_64-windows-gnu"),
    _x86("windows-x86_64", ".dll", "x86_64-windows-gnu", level=3),
)


def this_platform() -> str:
    """Returns the name of the platform that Python runs on, as in `Build.platform`."""
    system = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    return f"{system}-{'x86_64' if machine == 'amd64' else machine}"


def compilers() -> dict[str, list[str]]:
    """Returns the commands of the compilers that are there, the preferred one first."""
    commands = {}
    if importlib.util.find_spec("ziglang") is not None:
        commands["zig"] = [sys.executable, "-m", "ziglang", "cc"]
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            commands["cc"] = [name]
            break
    return commands


def build(directory: Path, every_platform: bool) -> str:
    """Builds into `directory` and returns one line that says what was built.

    The directory also gets `builds.json`, which lists each build with its size and
    checksum: the loader uses nothing else.
    """
    mine = [b for b in BUILDS if b.platform == this_platform()]
    reasons = []
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name, command in compilers().items():
        wanted = BUILDS if every_platform and name == "zig" else mine
        made, failed = _compile(directory, wanted, name, command)
        if made:
            _write_list(directory, made)
            return f"native sweep: built {', '.join(b.name for b in made)} with {name}."
        reasons += failed[:1]
    reason = reasons[0] if reasons else "neither ziglang nor a C compiler was found"
    if not mine:
        reason = f"there is no build for {this_platform()}"
    return f"native sweep: not built ({reason}); gradwatch works without it, slower."


def _compile(
    directory: Path, wanted: Iterable[Build], name: str, command: list[str]
) -> tuple[list[Build], list[str]]:
    """Returns the builds that succeeded, and the errors of the others."""

    def run(build: Build) -> str:
        target = build.zig if name == "zig" else build.cc
        files = [str(path) for path in sorted(SOURCES.glob("*.c"))]
        out = ["-o", str(directory / build.file)]
        math = [] if "windows" in build.name else ["-lm"]
        line = [*command, *target, *FLAGS, *files, *out, *math]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        return (done.stderr.strip() or "it failed") if done.returncode else ""

    wanted = list(wanted)
    with ThreadPoolExecutor(2) as pool:
        errors = dict(zip(wanted, pool.map(run, wanted), strict=True))
    failed = [f"{b.name}: {text.splitlines()[0]}" for b, text in errors.items() if text]
    return [build for build, text in errors.items() if not text], failed


def _write_list(directory: Path, made: Iterable[Build]) -> None:
    # Only the libraries and the list stay: on Windows the linker leaves more.
    kept = {build.file for build in made}
    for path in directory.iterdir():
        if path.name not in kept:
            path.unlink()
    listed = {}
    for build in made:
        content = (directory / build.file).read_bytes()
        entry = {"file": build.file, "size": len(content), "crc32": zlib.crc32(content)}
        listed[build.name] = entry
    text = json.dumps(listed, indent=1)
    (directory / "builds.json").write_text(text + "\n", encoding="utf-8")


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # As a script, it needs no hatchling.
    pass
else:

    class NativeBuildHook(BuildHookInterface[Any]):
        """Builds before the files of a wheel are collected."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Builds all platforms; for an editable install this machine's."""
            if self.target_name == "wheel":
                said = build(SOURCES / "lib", every_platform=version != "editable")
                self.app.display_info(said)


if __name__ == "__main__":
    print(build(SOURCES / "lib", every_platform="--all" in sys.argv[1:]))
