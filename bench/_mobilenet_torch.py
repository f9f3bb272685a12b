"""MobileNetV2 in torch, layer for layer that of `keras.applications`.

Written out, because torchvision loads only beside the very torch it was built with.
"""

import torch
from torch import nn

# Expansion, channels, blocks, stride: Sandler et al. (2018), table 2.
BLOCKS = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]


def convolution(inside, outside, size=1, stride=1, groups=1, relu=True):
    """A convolution, its normalisation and its rectifier."""
    layers = [
        nn.Conv2d(inside, outside, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outside, eps=1e-3),
    ]
    return nn.Sequential(*layers, nn.ReLU6()) if relu else nn.Sequential(*layers)


class Block(nn.Module):
    """Wider, by depth, narrow again; and past it, where that fits."""

    def __init__(self, inside, outside, stride, expansion):
        super().__init__()
        wide = inside * expansion
        layers = [convolution(inside, wide)] if expansion > 1 else []
        layers += [convolution(wide, wide, 3, stride, groups=wide)]
        layers += [convolution(wide, outside, relu=False)]
        self.layers = nn.Sequential(*layers)
        self.past = stride == 1 and inside == outside

    def forward(self, x):
        return x + self.layers(x) if self.past else self.layers(x)


class MobileNetV2(nn.Module):
    """`features` ends where Keras has `out_relu`."""

    def __init__(self, classes):
        super().__init__()
        layers, inside = [convolution(3, 32, 3, 2)], 32
        for expansion, outside, count, stride in BLOCKS:
            for number in range(count):
                first = stride if number == 0 else 1
                layers.append(Block(inside, outside, first, expansion))
                inside = outside
        self.features = nn.Sequential(*layers, convolution(inside, 1280))
        self.head = nn.Linear(1280, classes)

    def forward(self, x):
        return self.head(torch.mean(self.features(x), (2, 3)))
