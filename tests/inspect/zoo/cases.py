"""The kinds of model that these tests go through: the zoo, and a keras-hub backbone."""

import keras
import numpy as np
import pytest
from tests.zoo import Case, zoo


def bert():
    """A tiny BERT backbone of keras-hub in a model of one's own."""
    from keras_hub.models import BertBackbone

    backbone = BertBackbone(
        vocabulary_size=11,
        num_layers=1,
        num_heads=2,
        hidden_dim=6,
        intermediate_dim=8,
        dropout=0.1,
        max_sequence_length=5,
    )
    outputs = keras.layers.Dense(3, name="head")(backbone.output["pooled_output"])
    model = keras.Model(backbone.input, outputs, name="bert")
    model.compile(
        optimizer=keras.optimizers.SGD(1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    x = {
        "token_ids": np.array([[1, 2, 3, 0, 0], [4, 4, 5, 6, 0], [7, 8, 9, 1, 10]]),
        "segment_ids": np.array([[0, 0, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 0, 0, 1]]),
        "padding_mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
    }
    x = {key: value.astype("int32") for key, value in x.items()}
    return model, x, np.array([0, 1, 2], "int32")


CASES = {**zoo(), "bert": Case("bert", bert, bert.__doc__, frozenset({"random"}))}


def named(*without):
    """The names of all cases that have none of these tags."""
    return [name for name, case in CASES.items() if not case.tags & set(without)]


def each(names):
    """Parametrises a test by kind of model.

    With `--dist loadgroup`, the tests of one kind run in one process, where they share
    what was compiled for it.
    """
    params = [pytest.param(n, marks=pytest.mark.xdist_group(n), id=n) for n in names]
    return pytest.mark.parametrize("name", params)
