"""The loss as a target, exactly as `fit` computes it."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from .._errors import TargetError
from .._keras import (
    CompileLoss,
    class_weight_to_sample_weights,
    compiled_loss,
    compute_loss,
    compute_output_spec,
    given_loss,
    given_loss_weights,
    set_compiled_loss,
)
from ._target import Setting, Target, Tensor, require, weakly


@dataclass(frozen=True, eq=False)
class Loss(Target):
    """The target that `gradwatch.loss` returns."""

    function: Any = None
    sample_weight: Any = None
    class_weight: Mapping[int, float] | None = None

    uses_labels = True
    training = True  # as in `fit`

    def __post_init__(self) -> None:
        for function in keras.tree.flatten(self.function):
            try:
                keras.losses.get(function)
            except (ValueError, TypeError):
                raise TargetError(
                    "`loss` must be what `model.compile` takes: the name of a loss, a "
                    "`keras.losses.Loss` or a function of (y_true, y_pred). Received: "
                    f"{function!r}."
                ) from None

    def key(self) -> Hashable:
        """Returns a key that identifies the loss function; weights are data."""
        function: Any = self.function
        # A structure is identified by `id`; see `kept`.
        known = id(function) if keras.tree.is_nested(function) else weakly(function)
        return ("loss", known, self.sample_weight is None, not self.class_weight)

    def kept(self) -> Any:
        """Returns a structure of losses, which the key identifies by `id`."""
        return self.function if keras.tree.is_nested(self.function) else None

    def arrays(self, y: Any, batch_size: int) -> dict[str, Any]:
        """Returns the weight of each example."""
        weights = self.sample_weight
        if self.class_weight is not None:
            rule = "`loss` takes either `sample_weight` or `class_weight`, as `fit`."
            way_out = "Multiply them into `sample_weight`."
            require(weights is None, rule, "both", way_out)
            what = "several labels" if keras.tree.is_nested(y) else ""
            if not isinstance(self.class_weight, Mapping):
                what = f"an object of type {type(self.class_weight).__name__}"
            rule = "`class_weight` must map each class to a weight, as in `fit`, "
            way_out = "Write `{0: 1.0, 1: 2.0}`, or use `sample_weight` instead."
            require(not what, f"{rule}of a single output.", what, way_out)
            weights = class_weight_to_sample_weights(y, self.class_weight)
        if weights is None:
            return {}
        if isinstance(weights, list | tuple) and all(np.ndim(w) == 0 for w in weights):
            weights = np.asarray(weights, dtype=keras.config.floatx())
        for weight in keras.tree.flatten(weights):
            shape = np.shape(weight)
            rule = "`sample_weight` must have one weight per example."
            received = f"shape {shape} for a batch of {batch_size}"
            require(shape[:1] == (batch_size,), rule, received)
        return {"sample_weight": weights}

    def value(self, setting: Setting) -> Tensor:
        """Computes the loss with regularisers, `add_loss` and weights."""
        model: Any = setting.model
        has_own = overrides_loss(model) or compiled_loss(model) is not None
        rule = "A loss must come from `model.compile`, `add_loss`, a regulariser or "
        received = f"{model.name!r}, which has none of these"
        way_out = "Pass `loss='mse'` (or another loss), or a target such as "
        way_out += "`target=gradwatch.class_score(i)`."
        fits = bool(has_own or model.losses)
        require(fits, f"{rule}`compute_loss`.", received, way_out)
        value = compute_loss(
            model,
            x=setting.x,
            y=setting.y,
            y_pred=setting.outputs,
            sample_weight=setting.arrays.get("sample_weight"),
            training=setting.training,
        )
        shape = tuple(getattr(value, "shape", ()))
        what = "nothing" if value is None else f"shape {shape}"
        received = f"{what} from `{type(model).__name__}.compute_loss`"
        way_out = "Reduce it there, for instance with `keras.ops.mean`."
        fits = value is not None and shape == ()
        require(fits, "A loss must be one number.", received, way_out)
        return value

    def __str__(self) -> str:
        if self.function is None:
            return "the loss"
        name = getattr(self.function, "__name__", None)
        name = name or getattr(self.function, "name", None) or str(self.function)
        return f"the loss {name}"


def loss(
    function: Any = None,
    *,
    sample_weight: Any = None,
    class_weight: Mapping[int, float] | None = None,
) -> Target:
    """Returns the loss as a target: the one of `model.compile`, or another one.

    It includes everything that `fit` differentiates: regularisers, `add_loss`, sample
    weights, class weights, loss weights, an overridden `compute_loss`.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    >>> x, y = np.ones((2, 3)), np.ones((2, 1))
    >>> g = gw.gradients(model, x, y, target=gw.loss("mse", sample_weight=[1.0, 0.0]))
    >>> list(g)
    ['dense/kernel', 'dense/bias']

    Args:
        function: A loss as `model.compile` takes it: a name, a `keras.losses.Loss`, a
            function of `(y_true, y_pred)`, or a list or dict of these for several
            outputs. None: the compiled one.
        sample_weight: One weight per example, as in `fit`.
        class_weight: A weight for each class, as in `fit`.

    Returns:
        A target.
    """
    return Loss(function, sample_weight, class_weight)


def has_loss(model: Any) -> bool:
    """Returns whether the model has a loss of its own."""
    return bool(getattr(model, "compiled", False)) or overrides_loss(model)


def overrides_loss(model: Any) -> bool:
    """Returns whether the model overrides `compute_loss`."""
    return type(model).compute_loss is not keras.Model.compute_loss


def needs_labels(model: Any, target: Target) -> bool:
    """Returns whether the loss certainly needs labels.

    An overridden `compute_loss` may do without them.
    """
    if not isinstance(target, Loss) or overrides_loss(model):
        return False
    return target.function is not None or compiled_loss(model) is not None


def num_losses(model: Any, target: Target) -> int | None:
    """Returns the number of outputs with a loss; None if they share one."""
    function = target.function if isinstance(target, Loss) else None
    if function is None:
        function = given_loss(compiled_loss(model))
    if not keras.tree.is_nested(function):
        return None
    return sum(part is not None for part in keras.tree.flatten(function))


@contextlib.contextmanager
def prepared_loss(model: Any, target: Target, y: Any, outputs: Any) -> Iterator[None]:
    """Replaces the model's loss by a built one inside the block.

    A compiled loss that `fit` has not built yet would be built on first use, which for
    several outputs creates metrics that would stay on the user's model.

    Args:
        model: The model.
        target: The target; nothing is done if it is not a loss.
        y: Symbolic labels.
        outputs: Function that returns the symbolic outputs.
    """
    if not isinstance(target, Loss):
        yield
        return
    own = built = compiled_loss(model)
    if target.function is not None:
        names = getattr(model, "output_names", None)
        built = CompileLoss(target.function, output_names=names)
    elif own is not None and not own.built:
        built = CompileLoss(
            given_loss(own), given_loss_weights(own), output_names=own.output_names
        )
    if built is not None and not built.built and keras.tree.is_nested(y):
        compute_output_spec(built, y, outputs())
    with contextlib.ExitStack() as stack:
        if built is not own:
            stack.callback(set_compiled_loss, model, own)
            set_compiled_loss(model, built)
        yield
