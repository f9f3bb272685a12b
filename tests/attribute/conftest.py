import pytest

from .models import cnn, text


# One model for many tests: what was compiled for one question serves them all, and that
# nothing is left behind is what test_untouched.py is about.
@pytest.fixture(scope="module")
def image_model():
    return cnn()


@pytest.fixture(scope="module")
def text_model():
    return text()
