"""`gradients`: every gradient of a model by name, in one pass."""

from __future__ import annotations

from typing import Any

import keras

from ..engine import Engine, engine_for
from ..select import Wrt, require_model, selectors
from ..targets import Target, as_target
from ._result import Gradients


class Inspector:
    """Inspects one model many times, for instance in a loop.

    The pass is compiled on the first call with each shape and kept; later calls with
    the same shapes reuse it, with the current weights.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> inspect = gw.Inspector(model, target=gw.class_score(0), wrt=gw.activations())
    >>> for seed in range(3):
    ...     g = inspect(np.full((4, 3), seed, "float32"))
    >>> inspect.num_traces <= 1 or keras.backend.backend() == "torch"
    True

    Args:
        model: A Keras model or layer; built on first use if necessary.
        wrt: What to differentiate with respect to: `weights(…)`, `activations(…)`,
            `inputs()`, or a list of these. Default: every trainable weight.
        target: What to differentiate. Default: the loss.
        loss: A loss to use instead of the compiled one.
        training: The mode of the forward pass. Default: True for a loss, as in `fit`,
            and False for all other targets.
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
        self._engine = Engine(selectors(wrt), training=training, compiled=compiled)
        require_model(model)
        self.model = model
        self.target = as_target(target, loss)

    def __repr__(self) -> str:
        return f"<Inspector of {self.model.name!r}: {self.target}>"

    @property
    def num_traces(self) -> int:
        """Number of times that the pass was traced; it grows with each new shape."""
        return self._engine.traces

    def __call__(self, x: Any, y: Any = None, *, target: Any = None) -> Gradients:
        """Returns the gradients for one batch.

        Args:
            x: One batch of inputs, as the model takes them.
            y: Labels of the batch, for a loss.
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
    compiled: bool | None = None,
) -> Gradients:
    """Returns the gradient of a target with respect to anything in a model, by name.

    Runs one forward and one backward pass, however much is requested. The model, its
    optimizer and its random streams are not changed. On TensorFlow the first call
    with each shape costs about what an eager tape does; the second one compiles.

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
        model: A Keras model or layer; built on first use if necessary.
        x: One batch of inputs, as the model takes them.
        y: Labels of the batch, for a loss.
        wrt: What to differentiate with respect to: `weights(…)`, `activations(…)`,
            `inputs()`, or a list of these. Default: every trainable weight.
        target: What to differentiate: `class_score(i)`, `output(…)`,
            `mean_output()`, `loss(…)`, or a function of the outputs. Default: the
            compiled loss, exactly as `fit` computes it.
        loss: A loss to use instead of the compiled one.
        training: The mode of the forward pass. Default: True for a loss, as in `fit`,
            and False for all other targets. Moving averages and random streams are
            not changed in either mode, so dropout draws the mask of the next training
            step (on torch, of `train_on_batch`; `fit` first draws a number itself).
        compiled: True compiles the first call already; False runs operation by
            operation, with the same results. Default: as is fastest for a single call
            first, and compiled from the second call on.

    Returns:
        The gradients by name. `.missing` gives the reason for each missing one.

    Raises:
        GradwatchError: If an argument cannot be used; the message says why.
    """
    chosen = as_target(target, loss)
    wrt = selectors(wrt)
    engine = engine_for(model, wrt, training=training, compiled=compiled)
    return _inspect(engine, model, x, y, chosen)


def _inspect(engine: Engine, model: Any, x: Any, y: Any, target: Target) -> Gradients:
    captured = engine.run(model, x, y, target)
    return Gradients(
        captured.entries,
        target=str(target),
        value=captured.value,
        outputs=captured.outputs,
        data={name: captured.parts[name] for name in ("x", "y")},
        weights=captured.weights,
    )
