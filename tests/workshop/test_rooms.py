"""Each room of the design imports only what is on its line of the table.

To give a room a new import, change the table here: it is then a visible diff.
"""

import ast
import re
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "gradwatch"

# Beside the standard library, NumPy, `_errors`, `_shadow`, the room itself and, where
# Keras is allowed, `_keras`. A name that starts with a dot is another room. A noun may
# import `show` inside a method (`.plot()`, `.report()`).
ROOMS = {
    "select": {"keras"},
    "targets": {"keras", ".select"},
    "native": set(),
    "backends": {"keras", ".native"},  # and each file its own framework, see `allowed`
    "summarise": {"keras"},
    "engine": {"keras", ".select", ".targets", ".backends"},
    "inspect": {
        "keras",
        *(".select", ".targets", ".backends", ".engine", ".summarise", ".show"),
    },
    "monitor": {
        "keras",
        *(".select", ".backends", ".engine", ".summarise", ".run", ".diagnose"),
    },
    "run": {
        *(".summarise", "tensorboard", "google_crc32c"),
        *("pandas", "pyarrow", "wandb", "mlflow"),  # each an extra
        ".show",
    },
    "diagnose": {
        *(".summarise", ".run", ".show"),
        *("keras", ".select", ".targets", ".backends", ".engine"),  # the autopsy
    },
    "attribute": {
        *("keras", ".select", ".targets", ".engine", ".show"),
        *(".run", "rich"),  # pictures into TensorBoard; the progress bar
        *("zarr", "pyarrow"),  # each an extra: attributions of a dataset, on disk
    },
    "show": {".summarise", ".run", ".diagnose", "rich", "matplotlib"},
    "tensorboard": {".run", ".diagnose", ".show", "tensorboard", "werkzeug"},
    "cli": {
        *("click", "rich", "keras", "._version", ".diagnose", ".run", ".show"),
        ".native",  # `--version` says whether it is in use
        *(".inspect", ".attribute", ".select", ".targets", ".demo"),
    },
    "demo": {
        *("keras", "rich", ".monitor", ".run", ".diagnose", ".show"),
        *(".attribute", ".targets"),
    },
    "testing": {"keras"},
}
EVERY_ROOM = {f".{room}" for room in ROOMS}
FILES = {
    "__init__": EVERY_ROOM | {"._version", "._with_keras"},
    "__main__": {".cli"},
    "_errors": set(),
    "_keras": {"keras"},
    "_shadow": set(),
    "_version": set(),
    "_with_keras": EVERY_ROOM,
}
FRAMEWORKS = {"tensorflow", "jax", "torch"}
IMPORTERS = {"import_module", "__import__"}
# Who may import by a name that is made up: the backend that runs; the file of a command
# and, where a user asks for it, a module of theirs.
COMPUTED = {"backends", "cli"}
EVERYWHERE = sys.stdlib_module_names | {"numpy", "._errors", "._shadow"}


def place(path):
    """The room of a file (at the top: its own name), and its parts below the root."""
    return (path.parts[0] if len(path.parts) > 1 else path.stem), path.parts


def allowed(room, parts):
    """All that the file at `parts` may import, or None for a room not in the table."""
    if len(parts) == 1:
        return EVERYWHERE | FILES[room] if room in FILES else None
    if room not in ROOMS:
        return None
    own = Path(parts[1]).stem.lstrip("_") if room == "backends" else ""
    with_keras = {"._keras"} if "keras" in ROOMS[room] else set()
    return EVERYWHERE | ROOMS[room] | {f".{room}"} | ({own} & FRAMEWORKS) | with_keras


def resolve(module, level, parts):
    """The absolute dotted name of what `from <level dots><module>` means in a file."""
    if not level:
        return module
    package = ("gradwatch", *parts[:-1])
    return ".".join([*package[: len(package) - level + 1], *filter(None, [module])])


def imports(tree, parts):
    """Yield (line, absolute dotted name) of every import, also those in functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve(node.module or "", node.level, parts)
            yield from ((node.lineno, f"{base}.{a.name}") for a in node.names)
        elif isinstance(node, ast.Call) and callee(node) in IMPORTERS:
            name = node.args[0] if node.args else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                bare = name.value.lstrip(".")
                yield node.lineno, resolve(bare, len(name.value) - len(bare), parts)
            else:
                yield node.lineno, "<computed>"


def callee(call):
    """`b` of a call `a.b()` or `b()`."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def short(name):
    """`keras` for keras.ops, `.select` for gradwatch.select.x."""
    first, _, rest = name.partition(".")
    if first != "gradwatch":
        return first
    second = rest.partition(".")[0]
    inside = second in ROOMS or second in FILES
    return f".{second}" if inside else "gradwatch"


def leaks(tree):
    """Yield (line, what) where knowledge of a framework is used outside `backends`."""
    for node in ast.walk(tree):
        asked = []
        match node:
            case ast.Compare(left=left, comparators=others):
                asked = [left, *others]
            case ast.Match(subject=subject):
                asked = [subject]
            case ast.Call(func=ast.Attribute(attr="numpy"), args=[]):
                yield node.lineno, "calls `.numpy()`"
        if any(isinstance(n, ast.Call) and callee(n) == "backend" for n in asked):
            yield node.lineno, "asks which `backend()` runs"


def private_names(tree):
    """Yield (line, name) of each private attribute: read, or looked up by a string."""
    for node in ast.walk(tree):
        names = []
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                continue
            case ast.Attribute(attr=name):
                names = [name]
            case ast.Call(args=args):  # getattr and its kin
                names = [getattr(arg, "value", None) for arg in args]
            case ast.Subscript(slice=ast.Constant(value=name)):  # of a __dict__
                names = [name]
        for name in names:
            if isinstance(name, str) and re.fullmatch("_[a-z][a-z_]+", name):
                yield node.lineno, name


def private_keras(tree, parts, known):
    """Yield (line, what) where Keras is used by names that it may change."""
    for line, name in imports(tree, parts):
        if name.split(".")[:2] == ["keras", "src"]:
            yield line, "may not use `keras.src`"
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="keras"), attr="src"):
                yield node.lineno, "may not use `keras.src`"
    for line, name in private_names(tree):
        if name in known:
            yield line, f"may not use `{name}`, a private name of Keras"


def side_doors(tree, parts):
    """Yield (line, what) where a private file of another room is imported."""
    for line, name in imports(tree, parts):
        first, *rest = name.split(".")
        inside = first == "gradwatch" and rest and rest[0] in ROOMS
        own = bool(rest) and len(parts) > 1 and rest[0] == parts[0]
        if inside and not own and any(part.startswith("_") for part in rest[1:]):
            yield line, f"may not import `{name}` past the front door"


def faults(root):
    """Every break of the rules below `root`, one sentence each."""
    found = []
    keras_file = root / "_keras.py"
    known = set()
    if keras_file.exists():
        tree = ast.parse(keras_file.read_text(encoding="utf-8"))
        known = {name for _, name in private_names(tree)}
    for file in sorted(root.rglob("*.py")):
        room, parts = place(file.relative_to(root))
        tree = ast.parse(file.read_text(encoding="utf-8"))
        may = allowed(room, parts)
        if may is None:
            found.append(f"{'/'.join(parts)}: `{room}` is not in the table of rooms.")
            continue
        said = []
        for line, name in imports(tree, parts):
            computed_at_home = name == "<computed>" and room in COMPUTED
            if short(name) not in may and not computed_at_home:
                said.append((line, f"may not import `{name}`"))
        if room != "_keras":
            said += private_keras(tree, parts, known)
        said += side_doors(tree, parts)
        if room != "backends":
            said += leaks(tree)
        found += [f"{'/'.join(parts)}:{n}: `{room}` {what}." for n, what in said]
    return found


def test_every_room_keeps_to_its_imports():
    """No file of the package imports what its room may not."""
    assert len(list(SOURCE.rglob("*.py"))) > len(ROOMS), "The sources were not found."
    found = faults(SOURCE)
    assert not found, "\n".join(found)


BAD = [
    ("select/a.py", "import tensorflow as tf", "import `tensorflow`"),
    ("show/a.py", "def f():\n    import keras", "import `keras`"),
    ("show/a.py", "if TYPE_CHECKING:\n    import keras", "a.py:2: `show` may not imp"),
    ("select/a.py", "from ..engine import taps", "import `gradwatch.engine.taps`"),
    ("select/a.py", "from gradwatch.engine.b import c", "`gradwatch.engine.b.c`"),
    ("targets/a.py", "from .. import engine", "import `gradwatch.engine`"),
    ("summarise/b/a.py", "from ...show import x", "import `gradwatch.show.x`"),
    # The front door: importing it from a room would go round in a circle.
    ("show/a.py", "import gradwatch", "import `gradwatch`"),
    ("show/a.py", "from .. import gradients", "import `gradwatch.gradients`"),
    ("backends/jax.py", "import torch", "import `torch`"),
    ("backends/common.py", "import jax", "import `jax`"),
    ("select/a.py", "importlib.import_module('torch')", "import `torch`"),
    ("select/a.py", "__import__('to' + x)", "import `<computed>`"),
    ("inspect/a.py", "import pandas.io", "import `pandas.io`"),
    ("_errors.py", "import keras", "`_errors` may not import `keras`"),
    ("attic/a.py", "import os", "`attic` is not in the table"),
    ("_utils.py", "import os", "`_utils` is not in the table"),
    ("select/a.py", "from keras.src import ops", "use `keras.src`"),
    ("select/a.py", "import keras.src.ops", "use `keras.src`"),
    ("select/a.py", "import keras\nkeras.src.ops", "a.py:2: `select` may not use"),
    ("select/a.py", "a = keras.config.backend() == 'jax'", "asks which `backend()`"),
    ("engine/a.py", "from keras.src import backend", "use `keras.src`"),
    ("cli/a.py", "from ..show._format import number", "past the front door"),
    ("show/a/b.py", "from ...diagnose._rules._rule import X", "past the front door"),
    ("engine/a.py", "a = backend() in ('jax', 'torch')", "asks which `backend()`"),
    ("show/a.py", "match backend():\n    case 'jax': 0", "asks which `backend()`"),
    ("summarise/a.py", "y = x.numpy()", "calls `.numpy()`"),
]


def test_a_private_name_of_keras_is_found_elsewhere(tmp_path):
    """Once `_keras.py` holds it, nothing else may use it, also not by `getattr`."""
    (tmp_path / "_keras.py").write_text("def f(model):\n    return model._layers")
    (tmp_path / "select").mkdir()
    for source in ("model._layers", "getattr(model, '_layers', ())"):
        (tmp_path / "select" / "a.py").write_text(source)
        [fault] = faults(tmp_path)
        assert "`_layers`, a private name of Keras" in fault


@pytest.mark.parametrize(("file", "source", "fault"), BAD)
def test_a_break_of_the_rules_is_found(tmp_path, file, source, fault):
    """Each kind of fault gives exactly one sentence, which names it."""
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    [found] = faults(tmp_path)
    assert fault in found


GOOD = {
    "__init__.py": "from ._version import __version__\nfrom .inspect import g",
    "_errors.py": "import difflib",
    "select/a.py": "import select, keras\nimport numpy as np\nfrom .b import c\n"
    "from .._errors import e\nfrom gradwatch._errors import e\nfrom . import d",
    "backends/tensorflow.py": "import tensorflow as tf\n"
    "from tensorflow.python.eager import tape\ntf.zeros(1).numpy()",
    "backends/_jax.py": "import jax.numpy as jnp",
    "backends/torch/grad.py": "from torch import autograd\nfrom ..common import x",
    "backends/__init__.py": "import keras, importlib\nkeras.config.backend() == 'x'\n"
    "importlib.import_module(f'.{keras.config.backend()}', __package__)",
    "engine/a.py": "from ..select import x\nfrom gradwatch import targets, backends\n"
    "from .._keras import is_built\nself._layers",
    "_keras.py": "from keras.src import backend\nmodel._layers",
    "show/a.py": "def f():\n    import matplotlib.pyplot as plt\n    g.to_numpy(1)",
}


def test_what_the_design_allows_is_not_flagged(tmp_path):
    """Rooms, `_errors`, NumPy, the own framework and the standard library are fine."""
    for file, source in GOOD.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    assert faults(tmp_path) == []
