import keras
import pytest

from .models import cnn, text


@pytest.fixture(autouse=True)
def seeded():
    """Layers are named here, so Keras need not be reset (0.4 s) around each test."""
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_image_data_format("channels_last")
    keras.config.set_dtype_policy("float32")


# One model for many tests: what was compiled for one question serves them all, and that
# nothing is left behind is what test_untouched.py is about.
@pytest.fixture(scope="module")
def image_model():
    return cnn()


@pytest.fixture(scope="module")
def text_model():
    return text()
