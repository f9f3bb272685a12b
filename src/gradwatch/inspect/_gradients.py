"""The verb: every gradient of a model, by name, in one pass."""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from typing import Any

import keras

from ..engine import Engine
from ..select import Wrt, require_model, selectors
from ..targets import Target, as_target
from ._result import Gradients


class Inspector:
    """Inspects one model many times: what a loop keeps.

    The pass is compiled on the first call with a shape and kept; later calls with the
    same shapes run it as it is, on the weights of the moment.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> inspect = gw.Inspector(model, target=gw.class_score(0), wrt=gw.activations())
    >>> for seed in range(3):
    ...     g = inspect(np.full((4, 3), seed, "float32"))
    >>> inspect.num_traces <= 1 or keras.backend.backend() == "torch"
    True

    Args:
        model: A Keras model or layer; built on first use if need be.
        wrt: What to differentiate with respect to: `weights(…)`, `activations(…)`,
            `inputs()`, or a list of these. Default: every trainable weight.
        target: What to differentiate. Default: the loss.
        loss: A loss to use instead of the compiled one.
        training: The mode of the forward pass. Default: True for a loss, as in `fit`;
            False for everything else.
        compiled: False runs operation by operation, with the same results.
    """

    def __init__(
        self,
        model: keras.Layer,
        *,
        wrt: Wrt = None,
        target: Any = None,
        loss: Any = None,
        training: bool | None = None,
        compiled: bool = True,
    ) -> None:
        selectors(wrt)
        require_model(model)
        self.model = model
        self.target = as_target(target, loss)
        self._engine = Engine(wrt, training=training, compiled=compiled)

    def __repr__(self) -> str:
        return f"<Inspector of {self.model.name!r}: {self.target}>"

    @property
    def num_traces(self) -> int:
        """How often the pass was traced so far; it grows with each new shape."""
        return self._engine.traces

    def __call__(self, x: Any, y: Any = None, *, target: Any = None) -> Gradients:
        """Returns the gradients for one batch.

        Args:
            x: One batch of inputs, as the model takes them.
            y: Its labels, for a loss.
            target: Another target for this call. A new class index or new sample
                weights need no new compilation.
        """
        chosen = self.target if target is None else as_target(target)
        return _inspect(self._engine, self.model, x, y, chosen)


def gradients(  # noqa: PLR0913 - `loss=` is shorthand that uncompiled models need
    model: keras.Layer,
    x: Any,
    y: Any = None,
    *,
    wrt: Wrt = None,
    target: Any = None,
    loss: Any = None,
    training: bool | None = None,
    compiled: bool = True,
) -> Gradients:
    """Returns the gradient of a target with respect to anything in a model, by name.

    One forward and one backward pass, whatever is asked; the model, its optimizer and
    its random streams stay as they are.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential(
    ...     [
    ...         keras.Input((3,)),
    ...         keras.layers.Dense(4, activation="relu", name="hidden"),
    ...         keras.layers.Dense(2, name="head"),
    ...     ]
    ... )
    >>> model.compile(loss="mse")
    >>> x, y = np.ones((8, 3)), np.zeros((8, 2))
    >>> g = gw.gradients(model, x, y)  # the loss, every weight
    >>> list(g)
    ['hidden/kernel', 'hidden/bias', 'head/kernel', 'head/bias']
    >>> g = gw.gradients(
    ...     model,
    ...     x,
    ...     target=gw.class_score(1),
    ...     wrt=[gw.activations("hidden"), gw.inputs()],
    ... )
    >>> list(g)
    ['hidden', 'inputs']

    Args:
        model: A Keras model or layer; built on first use if need be.
        x: One batch of inputs, as the model takes them.
        y: Its labels, for a loss.
        wrt: What to differentiate with respect to: `weights(…)`, `activations(…)`,
            `inputs()`, or a list of these. Default: every trainable weight.
        target: What to differentiate: `class_score(i)`, `output(…)`,
            `mean_output()`, `loss(…)`, or a function of the outputs. Default: the
            compiled loss, exactly as `fit` computes it.
        loss: A loss to use instead of the compiled one.
        training: The mode of the forward pass. Default: True for a loss, as in `fit`;
            False for everything else. Moving averages and random streams stay as they
            are either way, so dropout draws what the next training step would draw
            (on torch: of `train_on_batch`; its `fit` first draws a number itself).
        compiled: False runs operation by operation, with the same results.

    Returns:
        The gradients by name. Names without one are in `.missing`, with the reason.

    Raises:
        GradwatchError: When an argument cannot be used; the message says why.
    """
    chosen = as_target(target, loss)
    engine = _engine_for(model, wrt, training, compiled)
    return _inspect(engine, model, x, y, chosen)


def _inspect(engine: Engine, model: Any, x: Any, y: Any, target: Target) -> Gradients:
    captured = engine.run(model, x, y, target)
    return Gradients(
        captured.entries,
        target=str(target),
        value=captured.value,
        outputs=captured.outputs,
        data={"x": captured.x, "y": captured.y},
        weights=captured.weights,
    )


# A call of `gradients` in a loop must not trace anew. The engines hang on the model by
# a weak reference and go with it; they hold no reference back.
_engines: weakref.WeakKeyDictionary[keras.Layer, dict[Hashable, Engine]] = (
    weakref.WeakKeyDictionary()
)


def _engine_for(model: Any, wrt: Wrt, training: bool | None, compiled: bool) -> Engine:
    fresh = Engine(wrt, training=training, compiled=compiled)
    chosen = selectors(wrt)
    require_model(model)
    kept = _engines.setdefault(model, {})
    return kept.setdefault((tuple(chosen), training, compiled), fresh)
