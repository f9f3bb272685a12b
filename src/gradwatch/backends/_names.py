"""One name for an operation that each framework calls differently."""

from __future__ import annotations

import re

# Operations that the frameworks call otherwise than `keras.ops` does.
_KNOWN_AS = {
    "convert_element_type": "cast",
    "_to_copy": "cast",
    "arg_max": "argmax",
    "arg_min": "argmin",
    "gt": "greater",
    "ge": "greater_equal",
    "lt": "less",
    "le": "less_equal",
    "eq": "equal",
    "ne": "not_equal",
    "rint": "round",
    "sgn": "sign",
    "floor_div": "floor_divide",
    "top_kv2": "top_k",
    "topk": "top_k",
}


def operation(name: str) -> str:
    """Returns the name of an operation as `keras.ops` has it, on every backend."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return _KNOWN_AS.get(plain, plain)


def canonical(name: str) -> str:
    """Returns the one name of an operation that each framework calls differently.

    Example:
    >>> canonical("RealDiv"), canonical("div_"), canonical("true_divide")
    ('divide', 'divide', 'divide')
    """
    name = name.strip("_").lower()
    return _NAMES.get(name, name)


_NAMES = {
    **dict.fromkeys(("realdiv", "div", "truediv", "true_divide"), "divide"),
    **dict.fromkeys(("divnonan", "div_no_nan"), "divide_no_nan"),
    **dict.fromkeys(("inv", "reciprocal"), "reciprocal"),
    **dict.fromkeys(("pow", "integer_pow"), "power"),
    **dict.fromkeys(
        ("batchmatmulv2", "batchmatmulv3", "mm", "bmm", "addmm", "dot_general"),
        "matmul",
    ),
    **dict.fromkeys(("convert_element_type", "to_copy"), "cast"),
    **dict.fromkeys(("acos", "arccos"), "arccos"),
    **dict.fromkeys(("asin", "arcsin"), "arcsin"),
    **dict.fromkeys(("atanh", "arctanh"), "arctanh"),
    **dict.fromkeys(("mul", "multiply"), "multiply"),
    **dict.fromkeys(("add", "addv2", "add_any", "biasadd"), "add"),
    **dict.fromkeys(("sub", "subtract"), "subtract"),
    **dict.fromkeys(("sum", "reduce_sum"), "sum"),
    **dict.fromkeys(("linalg_vector_norm", "norm"), "norm"),
    "logsoftmax": "log_softmax",
}
