"""A model with two optimizers and a step of its own, for each backend."""

import keras
from keras import layers, ops

BACKEND = keras.config.backend()


def both(real, fake):
    """The two losses: the judge's, and the maker's."""
    return ops.mean(ops.square(real - 1) + ops.square(fake)), ops.mean(
        ops.square(fake - 1)
    )


class Gan(keras.Model):
    """A maker that learns to please a judge."""

    def __init__(self):
        super().__init__(name="demo")
        self.maker = keras.Sequential(
            [keras.Input((3,)), layers.Dense(3, name="out")], name="maker"
        )
        self.judge = keras.Sequential(
            [keras.Input((3,)), layers.Dense(1, name="say")], name="judge"
        )
        self.built = True

    def compile(self, maker, judge, **options):
        super().compile(**options)
        self.maker_optimizer, self.judge_optimizer = maker, judge
        maker.build(self.maker.trainable_variables)
        judge.build(self.judge.trainable_variables)

    def call(self, x):
        return self.judge(self.maker(x))


class TensorFlowGan(Gan):
    def train_step(self, data):
        import tensorflow as tf

        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            judged, made = both(self.judge(x), self.judge(self.maker(y)))
        for loss, part, optimizer in (
            (judged, self.judge, self.judge_optimizer),
            (made, self.maker, self.maker_optimizer),
        ):
            variables = part.trainable_variables
            gradients = tape.gradient(loss, variables)
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {"judged": judged, "made": made}


class TorchGan(Gan):
    def train_step(self, data):
        import torch

        x, y = data
        for part, optimizer, place in (
            (self.judge, self.judge_optimizer, 0),
            (self.maker, self.maker_optimizer, 1),
        ):
            losses = both(self.judge(x), self.judge(self.maker(y)))
            variables = part.trainable_variables
            gradients = torch.autograd.grad(losses[place], [v.value for v in variables])
            with torch.no_grad():
                optimizer.apply(gradients, variables)
        return {"judged": losses[0].detach(), "made": losses[1].detach()}


class Pair(keras.optimizers.Optimizer):
    """JAX trains what `model.optimizer` says it has: here, the state of both."""

    def __init__(self, first, second):
        super().__init__(0.0, name="pair")
        self.first, self.second = first, second
        self.built = True

    @property
    def variables(self):
        return [*self.first.variables, *self.second.variables]

    def finalize_variable_values(self, var_list):
        """Nothing of its own."""


class JaxGan(Gan):
    def compile(self, maker, judge, **options):
        super().compile(maker, judge, optimizer=Pair(maker, judge), **options)

    def train_step(self, state, data):
        import jax

        trainable, fixed, slots, metrics = state
        x, y = data
        split, cut = (
            len(self.maker.trainable_variables),
            len(self.maker_optimizer.variables),
        )

        def losses(maker, judge):
            made, _ = self.maker.stateless_call(maker, [], y)
            real, fake = (self.judge.stateless_call(judge, [], v)[0] for v in (x, made))
            return both(real, fake)

        maker, judge = trainable[:split], trainable[split:]
        judged, made = losses(maker, judge)
        of_judge = jax.grad(lambda v: losses(maker, v)[0])(judge)
        of_maker = jax.grad(lambda v: losses(v, judge)[1])(maker)
        judge, judge_slots = self.judge_optimizer.stateless_apply(
            slots[cut:], of_judge, judge
        )
        maker, maker_slots = self.maker_optimizer.stateless_apply(
            slots[:cut], of_maker, maker
        )
        state = ([*maker, *judge], fixed, [*maker_slots, *judge_slots], metrics)
        return {"judged": judged, "made": made}, state


def gan(**compiled):
    """The one of this backend, with an optimizer for each half."""
    kinds = {"tensorflow": TensorFlowGan, "jax": JaxGan, "torch": TorchGan}
    model = kinds[BACKEND]()
    adam, sgd = keras.optimizers.Adam(0.1), keras.optimizers.SGD(0.2, clipnorm=0.1)
    model.compile(maker=adam, judge=sgd, **compiled)
    return model
