"""What people do today, to be measured in the same run; and the floor."""

from __future__ import annotations

import keras


def second_pass(model, x, y, folder):
    """The recipe of the web: the gradients of the batch, computed again, written."""
    import tensorflow as tf

    writer = tf.summary.create_file_writer(f"{folder}/recipe")

    class Recipe(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            with tf.GradientTape() as tape:
                loss = model.compute_loss(x, y, model(x, training=True))
            found = tape.gradient(loss, model.trainable_weights)
            with writer.as_default(step=batch):
                for weight, gradient in zip(
                    model.trainable_weights, found, strict=True
                ):
                    tf.summary.histogram(weight.path, gradient)

    return [Recipe()]


def tensorboard(model, x, y, folder):
    """Keras's own callback: histograms of weights, not of gradients, each epoch."""
    return [keras.callbacks.TensorBoard(f"{folder}/keras", histogram_freq=1)]


def bare_sweep(model, x, y, folder):
    """The limit: the native sweep reads every gradient, and that is all."""
    from gradwatch.backends.tensorflow.operations import Operations

    operations, apply = Operations.or_none(), model.optimizer.apply

    def reading(grads, variables=None):
        _, grads = operations.measure(list(grads), 1)
        return apply(grads, variables)

    class Floor(keras.callbacks.Callback):
        function = None

        def on_train_begin(self, logs=None):
            self.kept = model.train_function
            model.optimizer.__dict__["apply"] = reading
            if self.function is None:
                model.make_train_function(force=True)
                self.function = model.train_function
            model.train_function = self.function

        def on_train_end(self, logs=None):
            model.train_function = self.kept
            del model.optimizer.__dict__["apply"]

    return [Floor()]


def hooks(model, x, y, folder):
    """What trackers do on torch: a hook per weight, a histogram of 64 bins each."""
    import torch

    def note(gradient):
        flat = gradient.detach().reshape(-1)
        low, high = flat.min().item(), flat.max().item()
        torch.histc(flat, 64, low, high).tolist()

    class Hooks(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            tensors = [weight.value for weight in model.trainable_variables]
            self.hooks = [tensor.register_hook(note) for tensor in tensors]

        def on_train_end(self, logs=None):
            for hook in self.hooks:
                hook.remove()

    return [Hooks()]


RIVALS = {
    "tensorflow": {
        "limit: the bare native sweep": bare_sweep,
        "recipe: second pass, every step": second_pass,
        "keras.callbacks.TensorBoard": tensorboard,
    },
    "torch": {"a hook per weight, histograms": hooks},
    "jax": {},
}
"""By backend. The limit is of a step without XLA."""
