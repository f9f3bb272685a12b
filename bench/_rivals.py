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


def one_read(model, x, y, folder):
    """The floor: every gradient is read once, inside the step."""
    import tensorflow as tf

    total = tf.Variable(0.0, trainable=False)
    apply = model.optimizer.apply

    def reading(grads, variables=None):
        grads = list(grads)
        total.assign(tf.add_n([tf.reduce_sum(g) for g in grads]))
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


RIVALS = {
    "floor: one read of the gradients": one_read,
    "recipe: second pass, every step": second_pass,
    "keras.callbacks.TensorBoard": tensorboard,
}
