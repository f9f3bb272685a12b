"""The networks of `models` in torch, with the same weights, for Captum to explain."""

import warnings

import numpy as np
import torch
from torch import nn

from .models import CLASSES, weights_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from captum import attr, robust


class Cnn(nn.Module):
    """`models.cnn`: channels first, but flattened as Keras flattens."""

    def __init__(self, model):
        super().__init__()
        self.conv, self.mid = nn.Conv2d(2, 3, 2), nn.Conv2d(3, 4, 2)
        self.relu1, self.relu2, self.tanh = nn.ReLU(), nn.ReLU(), nn.Tanh()
        self.flat = nn.Identity()
        self.hidden, self.head = nn.Linear(48, 5), nn.Linear(5, 3)
        for name in ("conv", "mid"):
            _load(getattr(self, name), model, name, (3, 2, 0, 1))
        for name in ("hidden", "head"):
            _load(getattr(self, name), model, name, (1, 0))

    def forward(self, x):
        x = self.relu2(self.mid(self.relu1(self.conv(x))))
        x = self.flat(x.permute(0, 2, 3, 1).flatten(1))
        return self.head(self.tanh(self.hidden(x)))


class Pool(nn.Module):
    """`models.pooled`."""

    def __init__(self, model):
        super().__init__()
        self.conv, self.relu = nn.Conv2d(2, 3, 2), nn.ReLU()
        self.pool, self.head = nn.MaxPool2d(2), nn.Linear(12, 3)
        _load(self.conv, model, "conv", (3, 2, 0, 1))
        _load(self.head, model, "head", (1, 0))

    def forward(self, x):
        # Without the factor, Captum 0.9 has both hooks on one tensor, calls that of the
        # pooling first, with the gradient before the rule of the ReLU, and its values
        # do not add up.
        x = self.relu(1.0 * self.pool(self.conv(x)))
        return self.head(x.permute(0, 2, 3, 1).flatten(1))


class Text(nn.Module):
    """`models.text`."""

    def __init__(self, model):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 4), nn.Linear(5, 3)
        self.window, self.tanh = nn.Conv1d(4, 5, 3, padding=1), nn.Tanh()
        [table] = weights_of(model, "embed")
        self.embed.weight.data = torch.tensor(table, dtype=torch.float32)
        _load(self.window, model, "window", (2, 1, 0))
        _load(self.head, model, "head", (1, 0))

    def forward(self, tokens):
        x = self.tanh(self.window(self.embed(tokens).permute(0, 2, 1)))
        return self.head(x.mean(dim=2))


def _load(module, model, name, order):
    kernel, bias = weights_of(model, name)
    module.weight.data = torch.tensor(kernel.transpose(order), dtype=torch.float32)
    module.bias.data = torch.tensor(bias, dtype=torch.float32)


def first(images):
    """An array with its channels first, as a tensor."""
    return torch.tensor(np.moveaxis(images, -1, 1).copy(), dtype=torch.float32)


def last(tensor):
    """A tensor as an array with its channels last."""
    return np.moveaxis(tensor.detach().numpy(), 1, -1)


def asked(explainer, *args, **options):
    """What Captum says, for the class of each example."""
    options.setdefault("target", torch.tensor(CLASSES))
    if options["target"] is None:
        del options["target"]
    return quietly(explainer.attribute, *args, **options)


def quietly(function, *args, **options):
    """Without Captum's warnings, of its hooks and of `requires_grad`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*args, **options)


__all__ = ["Cnn", "Pool", "Text", "asked", "attr", "first", "last", "quietly", "robust"]
