"""Perturbation family: inputs that are covered, or moved against the target."""

from ._attacks import fgsm as fgsm
from ._attacks import pgd as pgd
from ._occlusion import occlusion as occlusion
