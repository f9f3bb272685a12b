"""What is asked of a monitor in the wrong words is said before training, in its own."""

import pytest

import gradwatch as gw

from .models import fit, mlp

WRONG = {
    "layers": [("nothere", gw.AddressError), (3.5, gw.GradwatchError)],
    "activations": [("nothere", gw.AddressError), (3.5, gw.GradwatchError)],
}


@pytest.mark.parametrize("argument", WRONG)
def test_an_error_names_the_argument_it_is_of(tmp_path, argument):
    """Not the `wrt` that it becomes; and nothing was touched or written."""
    model = mlp()
    before = model.get_weights()[0].copy()
    for wrong, kind in WRONG[argument]:
        with pytest.raises(kind, match=rf"^`{argument}` must .*Received: {wrong!r}"):
            fit(model, gw.GradientMonitor(tmp_path, **{argument: wrong}))
    assert (model.get_weights()[0] == before).all()
    assert not list(tmp_path.iterdir())
    assert "train_step" not in model.__dict__
