"""What every test stands on: the backend that was asked for, and a fresh Keras."""

import os
import sys

import pytest

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
from hypothesis import HealthCheck, settings

BACKENDS = ("tensorflow", "jax", "torch")

# A first call compiles for seconds, and a busy machine takes its time to draw examples:
# neither says anything about the code under test.
settings.register_profile(
    "gradwatch",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("gradwatch")


def pytest_sessionstart(session):
    """A requested backend that did not load fails the run; it is never skipped."""
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


def pytest_report_header(config):
    return f"keras {keras.__version__} on {keras.config.backend()}"


@pytest.fixture(autouse=True)
def seeded():
    """Fresh names (`dense`, not `dense_7`) and seeds before; Keras's settings after."""
    config = keras.config
    floatx, policy = config.floatx(), config.dtype_policy()
    data_format = config.image_data_format()
    # Without freeing memory: a full collection takes half a second, every test.
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)
    yield
    config.set_floatx(floatx)
    config.set_dtype_policy(policy)
    config.set_image_data_format(data_format)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
