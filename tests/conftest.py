"""What every test stands on: the requested backend, and a fresh Keras.

`pytest --without-framework` runs the tests that need no framework, and refuses to
import one: they run once, not once for each backend.
"""

import importlib.abc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

BACKENDS = ("tensorflow", "jax", "torch")
TESTS = Path(__file__).parent
FRAMEWORKS = ("keras", "tensorflow", "jax", "torch")

# Below tests/, what never imports Keras or a framework. `--without-framework` proves
# it: an import of one fails there.
FRAMEWORKLESS = (
    *("run/", "show/", "summarise/", "tensorboard/"),
    *("native/test_measure.py", "native/test_moves.py", "native/test_library.py"),
    *("native/test_xla.py", "native/test_memory.py"),
    *("diagnose/test_loss.py", "diagnose/test_rules.py"),
    *("workshop/test_backend_loads.py", "workshop/test_clean_tree.py"),
    *("workshop/test_rooms.py", "workshop/test_shape.py"),
    *("typing/", "workshop/test_voice.py"),
)

# A first call compiles for seconds, and a busy machine takes its time to draw examples:
# neither says anything about the code under test.
settings.register_profile(
    "gradwatch",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("gradwatch")


class RefuseFrameworks(importlib.abc.MetaPathFinder):
    """Raises on the import of Keras or a framework, by whatever it is imported."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in FRAMEWORKS:
            raise ImportError(f"This test must not import {fullname!r}.")


def pytest_addoption(parser):
    parser.addoption(
        "--without-framework",
        action="store_true",
        help="Run only the tests that need no framework, and refuse to import one.",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers",
        "frameworkless: needs neither Keras nor a framework.",
    )
    if config.getoption("--without-framework"):
        sys.meta_path.insert(0, RefuseFrameworks())


def frameworkless(path):
    """Whether the test file at `path` needs neither Keras nor a framework."""
    try:
        return path.relative_to(TESTS).as_posix().startswith(FRAMEWORKLESS)
    except ValueError:  # A docstring of the package, or an example.
        return False


def pytest_ignore_collect(collection_path, config):
    """Passes over what needs a framework: its file, or its conftest, imports one."""
    if not config.getoption("--without-framework") or collection_path == TESTS:
        return None
    if collection_path.is_dir():
        below = f"{collection_path.relative_to(TESTS).as_posix()}/"
        kept = any(below.startswith(k) or k.startswith(below) for k in FRAMEWORKLESS)
        return None if kept else True
    return None if frameworkless(collection_path) else True


def pytest_collection_modifyitems(items):
    for item in items:
        if frameworkless(item.path):
            item.add_marker("frameworkless")


def pytest_sessionstart(session):
    """A requested backend that did not load fails the run; it is never skipped."""
    if session.config.getoption("--without-framework"):
        return
    import keras

    asked = os.environ["KERAS_BACKEND"]
    # Asking Keras for its name is not enough: look at a tensor that it made.
    tensor = type(keras.ops.zeros(1)).__module__.split(".")[0]
    made_by = {"jaxlib": "jax"}.get(tensor, tensor)
    if asked not in BACKENDS or not asked == keras.config.backend() == made_by:
        pytest.exit(
            f"`KERAS_BACKEND` must be one of {BACKENDS}, and load. Got: {asked!r}, "
            f"but Keras runs {keras.config.backend()!r} with tensors of {made_by!r}.",
            returncode=3,
        )


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory):
    """Many tests compile the same small step, for seconds: JAX keeps it by its content.

    Each worker has its own directory, because JAX does not write entries atomically.
    Set in this process only: a child that a test kills could leave half an entry.
    """
    if os.environ["KERAS_BACKEND"] == "jax" and "jax" in sys.modules:
        config = sys.modules["jax"].config
        config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("jax")))
        config.update("jax_persistent_cache_min_compile_time_secs", 0)
        config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def pytest_report_header(config):
    if config.getoption("--without-framework"):
        return "no framework"
    import keras

    return f"keras {keras.__version__} on {keras.config.backend()}"


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Gives fixtures of a module a fresh Keras, too: they are set up before `seeded`.

    Otherwise the names and weights of their models would depend on the tests that
    happened to run before.
    """
    if fixturedef.scope != "function":
        fresh_keras()
    return (yield)


@pytest.fixture(autouse=True)
def seeded():
    """Fresh names (`dense`, not `dense_7`) and seeds before; Keras's settings after."""
    if "keras" not in sys.modules:
        yield
        close_figures()
        return
    import keras

    config = keras.config
    floatx, policy = config.floatx(), config.dtype_policy()
    data_format = config.image_data_format()
    fresh_keras()
    yield
    config.set_floatx(floatx)
    config.set_dtype_policy(policy)
    config.set_image_data_format(data_format)
    close_figures()


def fresh_keras():
    """Resets the names that Keras counts, and all seeds."""
    if "keras" not in sys.modules:
        return
    import keras

    # Without freeing memory: a full collection takes half a second, every test.
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)


def close_figures():
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
