"""A whole dataset, batch by batch: attributions that go to disk as they are made."""

from ._opened import AttributedDataset as AttributedDataset
from ._verb import attribute_dataset as attribute_dataset
