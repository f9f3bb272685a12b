"""What the user had put on the instance is used while watched, and there afterwards."""

from gradwatch.monitor import GradientMonitor

from .models import fit, mlp


def test_a_train_step_on_the_instance_is_used_and_stays(tmp_path):
    """Also after a second `fit` with the same monitor."""
    model, called = mlp(), []
    step = model.train_step

    def own(*args):
        called.append(len(args))
        return step(*args)

    model.train_step = own
    monitor = GradientMonitor(tmp_path, every=1)
    for _ in range(2):
        fit(model, monitor)
        assert called
        assert vars(model)["train_step"] is own


def test_an_apply_on_the_instance_is_used_and_stays(tmp_path):
    """Whichever of the two methods the backend trains with."""
    model, called = mlp(), []
    optimizer = model.optimizer
    mine = {}
    for name in ("apply", "stateless_apply"):
        original = getattr(optimizer, name)

        def own(*args, original=original, **kwargs):
            called.append(args)
            return original(*args, **kwargs)

        mine[name] = own
        setattr(optimizer, name, own)
    fit(model, GradientMonitor(tmp_path, every=1))
    assert called
    assert {name: vars(optimizer).get(name) for name in mine} == mine
