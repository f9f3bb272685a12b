"""Loading the compiled library: which build, whether it works, and why not."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import platform
import struct
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._errors import GradwatchError

TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 3}
"""Numbers of the element types in C. Other types cannot be measured natively."""

VERSION = 2
"""Interface version that the library must have (`GW_VERSION` in sweep.h)."""

DIRECTORY = Path(__file__).parent / "lib"
"""Directory of the builds, with `builds.json`, the list that hatch_build.py writes."""

_INT, _REAL, _FLAG = ctypes.c_int64, ctypes.c_double, ctypes.c_int32
_ADDRESS = ctypes.c_void_p
# Result and arguments of each function. Arrays are passed as addresses.
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "gw_version": (_FLAG, []),
    "gw_level": (_FLAG, []),
    "gw_measure": (
        None,
        [_INT, *[_ADDRESS] * 3, _REAL, _FLAG, _ADDRESS, _ADDRESS],
    ),
    "gw_sample_bytes": (_INT, [_INT, _ADDRESS, _ADDRESS]),
    "gw_sample": (None, [_INT, *[_ADDRESS] * 4]),
    "gw_moves": (None, [_INT, *[_ADDRESS] * 5]),
    "gw_norms": (None, [_INT, *[_ADDRESS] * 4]),
    "gw_box_open": (_INT, [_ADDRESS, _INT, _INT]),
    "gw_box_close": (None, [_INT]),
    "gw_tensorflow_register": (_FLAG, [_ADDRESS, _INT]),
}


@dataclass(frozen=True, slots=True)
class Library:
    """The loaded library.

    Attributes:
        name: Name of the build, such as `"linux-x86_64-v3"`.
        functions: The functions of C, with their argument types. A call releases the
            GIL while it runs.
    """

    name: str
    functions: ctypes.CDLL

    def address(self, name: str) -> int:
        """Returns the address of an exported function, to register it with XLA."""
        function = ctypes.cast(getattr(self.functions, name), ctypes.c_void_p)
        return function.value or 0


class _LoadError(Exception):
    """A reason not to use the library; never leaves this file."""


def library() -> Library | None:
    """Returns the library, loaded once per process, or None where it cannot be used.

    It is not used while the environment variable `GRADWATCH_NATIVE` is `0`.
    """
    return None if _is_disabled() else _loaded()[0]


def why_not() -> str | None:
    """Returns why `library()` is None, without a full stop; None if it is not."""
    return "GRADWATCH_NATIVE=0 is set" if _is_disabled() else _loaded()[1]


def address(name: str) -> int:
    """Returns the address of an exported function, to register it with XLA.

    Raises:
        GradwatchError: If the library cannot be used here.
    """
    return require().address(name)


def require() -> Library:
    """Returns the library; an error where it cannot be used."""
    current = library()
    if current is None:
        raise GradwatchError(
            "The native sweep must be usable here. Received: no library, because "
            f"{why_not()}. Ask `gradwatch.native.library()` first."
        )
    return current


def _is_disabled() -> bool:
    return os.environ.get("GRADWATCH_NATIVE") == "0"


@functools.cache
def _loaded() -> tuple[Library | None, str | None]:
    """Returns the library or the reason why there is none."""
    try:
        return _load(DIRECTORY), None
    except _LoadError as error:
        return None, str(error)


def _load(directory: Path) -> Library:
    """Loads the best build for this processor.

    The baseline build runs on every processor of the platform. It is loaded first and
    says what the processor supports; a build for that replaces it where there is one
    and it loads.
    """
    name = _platform()
    builds = _builds(directory)
    baseline = _open(directory, builds, name)
    level = int(baseline.functions.gw_level())
    for better in (f"{name}-v{n}" for n in range(level, 1, -1)):
        if better in builds:
            try:
                return _open(directory, builds, better)
            except _LoadError:
                continue
    return baseline


def _platform() -> str:
    """Returns the name of the platform, as hatch_build.py gives it to its builds."""
    system = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    machine = platform.machine().lower()
    if struct.calcsize("P") != 8:
        raise _LoadError(f"there is no build for a 32-bit Python on {system}")
    return f"{system}-{'x86_64' if machine == 'amd64' else machine}"


def _builds(directory: Path) -> dict[str, dict[str, Any]]:
    """Returns the list of builds, by name."""
    try:
        builds = json.loads((directory / "builds.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise _LoadError("this installation was built without it") from None
    except (OSError, ValueError) as error:
        raise _LoadError(f"its list of builds cannot be read ({error})") from None
    if not isinstance(builds, dict):
        raise _LoadError("its list of builds cannot be read (it is not a table)")
    return builds


def _open(directory: Path, builds: dict[str, dict[str, Any]], name: str) -> Library:
    """Loads one build and checks that it is what the list says."""
    if name not in builds:
        raise _LoadError(f"there is no build for {name}")
    try:
        path = directory / builds[name]["file"]
        content = path.read_bytes()
        # A truncated library may load and then end the process where a page is missing.
        if (len(content), zlib.crc32(content)) != (
            builds[name]["size"],
            builds[name]["crc32"],
        ):
            raise _LoadError(
                f"{path.name} is damaged: it is not the file that was built"
            )
        functions = ctypes.CDLL(str(path))
        for function, (result, arguments) in _SIGNATURES.items():
            getattr(functions, function).restype = result
            getattr(functions, function).argtypes = arguments
        version = functions.gw_version()
    except (OSError, AttributeError, KeyError, TypeError) as error:
        raise _LoadError(f"the build for {name} does not load ({error})") from None
    if version != VERSION:
        raise _LoadError(
            f"the build for {name} has interface version {version} instead of {VERSION}"
        )
    return Library(name, functions)
