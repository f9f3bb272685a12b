"""One door for every method: swapping the name is the whole edit."""

import inspect
import re

import pytest

from gradwatch import attribute

FAMILIES = {
    "_gradient": (
        *("saliency", "input_x_gradient", "layer_gradient_x_activation"),
        *("guided_backprop", "deconvnet", "deep_lift"),
    ),
    "_path": (
        *("integrated_gradients", "expected_gradients", "internal_influence"),
        *("layer_conductance", "neuron_conductance"),
    ),
    "_cam": (
        *("grad_cam", "grad_cam_plus_plus", "layer_cam", "score_cam"),
        "guided_grad_cam",
    ),
    "_noise": ("smoothgrad", "squaregrad", "vargrad"),
    "_perturbation": ("occlusion", "fgsm", "pgd"),
}
METHODS = [name for names in FAMILIES.values() for name in names]
OTHERS = {"attribute_dataset", "blurred", "sampled"}


def test_every_function_is_a_method_or_known_not_to_be():
    """A new one has to take its place in the list above."""
    found = {
        name
        for name, value in vars(attribute).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    assert found == {*METHODS, *OTHERS}


@pytest.mark.parametrize("name", METHODS)
def test_methods_take_the_same_first_arguments(name):
    """`(model, x, target, *, layer=None, …)`."""
    parameters = list(inspect.signature(getattr(attribute, name)).parameters.values())
    assert [p.name for p in parameters[:4]] == ["model", "x", "target", "layer"]
    assert all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters[:3])
    assert all(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters[3:])
    assert parameters[3].default is None


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_a_family_and_cites_its_paper(name):
    """It lives in its family; the docstring has a year and the place in the paper."""
    method = getattr(attribute, name)
    [family] = [family for family, names in FAMILIES.items() if name in names]
    module = inspect.unwrap(method).__module__
    assert module.split(".")[:3] == ["gradwatch", "attribute", family]
    cited = r"\b(19|20)\d\d\b.*?\b(eqs?\.|section|definition) \d"
    assert re.search(cited, inspect.getdoc(method), re.DOTALL)
