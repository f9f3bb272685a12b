"""The private names of Keras that gradwatch needs. Only this file uses them.

Keras may change any of them in any release. Each is used by one small function here, so
that a change upstream means a change of one function. All were checked on Keras 3.10
and 3.15.1. A function that works without its private name documents its fallback.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
from keras.src import backend as _backend
from keras.src.backend import compute_output_spec as compute_output_spec
from keras.src.backend.common import global_state as _global_state
from keras.src.backend.common.masking import get_keras_mask as get_keras_mask
from keras.src.backend.common.masking import set_keras_mask as set_keras_mask
from keras.src.backend.common.stateless_scope import (
    get_stateless_scope as get_stateless_scope,
)
from keras.src.callbacks.callback_list import CallbackList as _CallbackList
from keras.src.random.seed_generator import (
    global_seed_generator as _global_seed_generator,
)
from keras.src.trainers.compile_utils import CompileLoss as CompileLoss
from keras.src.trainers.data_adapters.data_adapter_utils import (
    class_weight_to_sample_weights as class_weight_to_sample_weights,
)
from keras.src.trainers.epoch_iterator import EpochIterator as _EpochIterator

# layers and models --------------------------------------------------------------------


def all_layers(model: Any, *, itself: bool = True) -> list[Any]:
    """Returns the layers of a model at every depth, including the model itself."""
    return list(model._flatten_layers(include_self=itself))


def is_built(model: Any) -> bool:
    """Returns whether a model and all layers below it have their weights."""
    return all(layer.built for layer in all_layers(model))


def sublayers(layer: Any) -> list[Any]:
    """Returns the direct children, each once: nodes of a functional graph, then layers.

    A functional graph also has plain operations, which `layers` does not list.
    """
    below = [*getattr(layer, "_operations", ()), *getattr(layer, "_layers", ())]
    return list({id(child): child for child in below}.values())


def own_variables(layer: Any) -> tuple[list[Any], list[Any]]:
    """Returns the learnable and the other variables that a layer itself owns.

    `trainable_variables` is empty for a frozen layer, but a frozen weight is still
    learnable.
    """
    learnable = getattr(layer, "_trainable_variables", ())
    return list(learnable), list(getattr(layer, "_non_trainable_variables", ()))


def seed_variables(layer: Any) -> list[Any]:
    """Returns the variables that hold the random seeds of a layer."""
    return [generator.state for generator in layer._seed_generators]


def mode_arguments(model: Any, training: bool) -> dict[str, bool]:
    """Returns `{"training": …}` for a model whose `call` takes it, else `{}`."""
    return {"training": training} if model._call_has_training_arg else {}


def input_structure(model: Any) -> Any:
    """Returns the input structure of a functional model; None for other models."""
    return getattr(model, "_inputs_struct", None)


def output_structure(model: Any) -> Any:
    """Returns the output structure of a functional model; None for other models."""
    return getattr(model, "_outputs_struct", None)


def functional_of(model: Any) -> Any:
    """Returns the functional model inside a `Sequential`; None if there is none."""
    return getattr(model, "_functional", None)


def switch_off_remat(layer: Any) -> None:
    """Switches rematerialisation off on this instance."""
    layer.__dict__["_remat_mode"] = None


CHANGED_IN_PLACE = ("_losses", "_losses_override", "_loss_ids", "_tracked")
"""Attributes of a layer that a call changes in place."""


def added_loss_ids(layer: Any) -> set[int]:
    """Returns the identities of the losses that a layer added in its last call."""
    return set(layer._loss_ids)


# the functional graph -----------------------------------------------------------------


def producer_of(tensor: Any) -> Any:
    """Returns the operation that a symbolic tensor comes from; None if unknown."""
    return getattr(getattr(tensor, "_keras_history", None), "operation", None)


def consumers_of(operation: Any) -> Iterator[Any]:
    """Yields the operations that read the output of this one in a functional graph."""
    for node in getattr(operation, "_outbound_nodes", ()):
        yield node.operation


def inputs_of(operation: Any) -> list[Any]:
    """Returns the symbolic inputs of an operation that is called exactly once."""
    nodes: Any = getattr(operation, "_inbound_nodes", ())
    return list(nodes[0].input_tensors) if len(nodes) == 1 else []


# the compiled loss --------------------------------------------------------------------


def compiled_loss(model: Any) -> Any:
    """Returns the loss object that `compile` made; None without one."""
    return getattr(model, "_compile_loss", None)


def set_compiled_loss(model: Any, loss: Any) -> None:
    """Replaces the compiled loss object, without tracking the new one."""
    model.__dict__["_compile_loss"] = loss


def given_loss(loss: Any) -> Any:
    """Returns the loss as it was passed to `compile`."""
    return getattr(loss, "_user_loss", None)


def given_loss_weights(loss: Any) -> Any:
    """Returns the loss weights as they were passed to `compile`."""
    return loss._user_loss_weights


def compute_loss(model: Any, **arguments: Any) -> Any:
    """Computes the loss as `train_step` does, for every signature of `compute_loss`."""
    return model._compute_loss(**arguments)


def loss_tracker(model: Any) -> Any:
    """Returns the metric that averages the compiled loss; None without one."""
    return getattr(model, "_loss_tracker", None)


# optimizers ---------------------------------------------------------------------------


def inner_optimizer(optimizer: Any) -> Any:
    """Returns the optimizer inside wrappers such as `LossScaleOptimizer`."""
    while hasattr(optimizer, "inner_optimizer"):
        optimizer = optimizer.inner_optimizer
    return optimizer


def step_count(optimizer: Any) -> Any:
    """Returns the variable that counts steps, including accumulation steps.

    The public `iterations` counts updates. None for an optimizer without a counter.
    """
    return getattr(inner_optimizer(optimizer), "_iterations", None)


def variables_of(optimizer: Any) -> list[Any]:
    """Returns the weights that an optimizer was built for."""
    return list(getattr(optimizer, "_trainable_variables", None) or ())


def learning_rate_of(optimizer: Any) -> Any:
    """Returns the learning rate as it was set: a variable, a schedule or a function."""
    return getattr(optimizer, "_learning_rate", None)


def set_learning_rate(optimizer: Any, rate: Any) -> None:
    """Replaces the learning rate, without tracking the new one."""
    optimizer.__dict__["_learning_rate"] = rate


def accumulated_gradient(optimizer: Any, variable: Any) -> Any:
    """Returns the variable that accumulates the gradients of a weight."""
    index = optimizer._get_variable_index(variable)
    return optimizer._accumulated_gradients[index]


def clip_gradients(optimizer: Any, gradients: Sequence[Any]) -> list[Any]:
    """Clips gradients as the optimizer does before its update."""
    return list(optimizer._clip_gradients(list(gradients)))


def set_variable_path(variable: Any, path: str) -> None:
    """Sets the path of a variable; weight decay matches weights by their paths."""
    variable._path = path


def is_keras_loss(function: object) -> bool:
    """Returns whether this is a loss of Keras."""
    module = getattr(function, "__module__", None) or ""
    return callable(function) and str(module).startswith("keras.src.losses")


# global state -------------------------------------------------------------------------

_NAME_COUNTERS = "object_name_uids"
_MADE_ON_DEMAND = ("uninitialized_variables", "global_seed_generator")


def keep_global_state() -> Callable[[], None]:
    """Returns a function that restores Keras's name counters and seed generator.

    Symbolic tensors take automatic names, which would shift those of the user's next
    layers. The global seed generator is created now if it does not exist: inside a
    stateless scope it would never get a value.
    """
    state = vars(_global_state.GLOBAL_STATE_TRACKER)
    counters = dict(state.get(_NAME_COUNTERS, {}))
    absent = [name for name in _MADE_ON_DEMAND if state.get(name) is None]
    _global_seed_generator()

    def restore() -> None:
        names = state.get(_NAME_COUNTERS, {})
        names.clear()
        names.update(counters)
        for name in absent:
            state.pop(name, None)

    return restore


def global_settings() -> dict[str, dict[str, Any]]:
    """Returns Keras's global state and settings, by name."""
    return {
        "keras state": vars(_global_state.GLOBAL_STATE_TRACKER),
        "keras settings": vars(_global_state.GLOBAL_SETTINGS_TRACKER),
    }


def operation_modules() -> tuple[Any, ...]:
    """Returns the modules in which Keras looks up its nonlinearities at each call."""
    return (_backend.nn, _backend.numpy)


# a training step on JAX ---------------------------------------------------------------


def jax_state_is_synced(model: Any) -> bool:
    """Returns whether the variables have values; inside `fit` on JAX they have not."""
    return bool(getattr(model, "_jax_state_synced", True))


MAKE_FUNCTION = "_make_function"
"""The method of the JAX trainer that compiles a step."""


def jax_step(model: Any, train_function: Callable[..., Any], batch: Any) -> Any:
    """Runs one training step on a batch with the JAX trainer, and returns its logs."""
    parts = ("trainable", "non_trainable", "optimizer", "metrics")
    names = [f"{part}_variables" for part in parts]
    wanted = dict.fromkeys(names, True)
    state = model._get_jax_state(**wanted, purge_model_variables=False)
    model._jax_state_synced = False
    logs, state = train_function(state, iter([batch]))
    model._jax_state = dict(zip(names, state, strict=True))
    model.jax_state_sync()
    return logs


# a training step on TensorFlow --------------------------------------------------------


def logits_of(tensor: Any) -> Any:
    """Returns the logits that Keras attached to a probability tensor, or None."""
    return getattr(tensor, "_keras_logits", None)


# `fit` --------------------------------------------------------------------------------


def running_fit() -> tuple[Any, Any]:
    """Returns the list of callbacks and the batches of the `fit` that is calling.

    Keras makes both for one `fit`, and hands neither to a callback. Without them an
    error in another callback or in the data goes unnoticed: `on_train_end` is not
    called then. They are looked for among the callers of this function, by their
    classes: the nearest `CallbackList`, and the `EpochIterator` beside it in the frame
    of `fit`. Either is None if it is not there.
    """
    callbacks, frame = None, inspect.currentframe()
    while frame is not None:
        values = list(frame.f_locals.values())
        if callbacks is None:
            lists = (v for v in values if isinstance(v, _CallbackList))
            callbacks = next(lists, None)
        if any(value is callbacks for value in values if value is not None):
            for value in values:
                if isinstance(value, _EpochIterator):
                    return callbacks, value
        frame = frame.f_back
    return callbacks, None


def hears_batches(callbacks: Any) -> bool:
    """Returns whether any callback of a list has a method for the end of a batch."""
    names, base = ("on_train_batch_end", "on_batch_end"), keras.callbacks.Callback
    return any(
        getattr(type(callback), name) is not getattr(base, name)
        or name in vars(callback)
        for callback in callbacks.callbacks
        for name in names
    )


BATCH_SOURCES = ("_enumerate_iterator", "catch_stop_iteration")
"""Methods of the batches of a `fit` that an error in the data passes through: the
generator of an epoch, and the context around each batch (torch) or all of them."""
