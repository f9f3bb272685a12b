"""Attributions of a whole dataset, batch by batch, in a Zarr group on disk."""

from ._attribute_dataset import attribute_dataset as attribute_dataset
from ._opened import AttributedDataset as AttributedDataset
