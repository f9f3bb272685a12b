"""`Gradients`: the result of an inspection, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from .._errors import AddressError, GradwatchError, closest, counted, quoted
from ..backends import Sparse, current
from ..engine import Entry, Leaf, Reason, dense
from ..show import plot_flow, table_html, table_rich, table_text
from ..summarise import Row, summarise_array, summarise_rows

if TYPE_CHECKING:
    from ..show import Axes, Figure, ThemeName


class Gradients(Mapping[str, Any]):
    """Gradients by name: a mapping from address to tensor that prints as a table.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, name="a")])
    >>> model.compile(loss="mse")
    >>> g = gw.gradients(model, np.ones((4, 3)), np.zeros((4, 2)))
    >>> tuple(g["a/kernel"].shape)
    (3, 2)
    >>> g.missing
    {}

    Attributes:
        target: Description of the target.
        value: Value of the target, a tensor.
        outputs: Outputs of the model in the same pass, by name.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        target: str,
        value: Any,
        outputs: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        weights: Mapping[str, Any] | None = None,
    ) -> None:
        self.target = target
        self.value = value
        self.outputs = dict(outputs or {})
        self._entries = {entry.name: entry for entry in entries}
        self._data = dict(data or {})
        self._weights = dict(weights or {})

    # by name --------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        """Returns the dense gradient at an address, or at a unique last part of one."""
        entry = self._entry(name)
        if entry.gradient is None:
            raise AddressError(
                f"There is no gradient for {entry.name!r}. {entry.reason}"
            )
        return dense(entry.gradient)

    def __iter__(self) -> Iterator[str]:
        return (n for n, entry in self._entries.items() if entry.gradient is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        entry = self._entries.get(name) if isinstance(name, str) else None
        return entry is not None and entry.gradient is not None

    def _entry(self, name: str) -> Entry:
        if name in self._entries:
            return self._entries[name]
        names = list(self._entries)
        if not isinstance(name, str):
            raise AddressError(
                f"A gradient is asked for by name. Received: {name!r}. The names are "
                f"{quoted(names)}."
            )
        ends = self._ending_in(name)
        if len(ends) == 1:
            return self._entries[ends[0]]
        calls = self._calls(name)
        if calls:
            raise AddressError(
                f"{name!r} was called {counted(len(calls), 'time')}, and each call has "
                f"its own gradient. Ask for one of {quoted(calls)}, or for "
                f"`.total({name!r})`, their sum."
            )
        parts = self._parts(name)
        if parts:
            raise AddressError(
                f"{name!r} has {counted(len(parts), 'tensor')}. Ask for one of "
                f"{quoted(parts)}."
            )
        if ends:
            raise AddressError(
                f"{name!r} is the last part of {len(ends)} names: {quoted(ends)}. Ask "
                "for one of these."
            )
        near = closest(name, names)
        hint = f" Closest: {quoted(near)}." if near else ""
        raise AddressError(
            f"There is no gradient of that name. Received: {name!r}. This result has "
            f"{counted(len(names), 'name')}.{hint} Ask for more with `wrt=`."
        )

    def _ending_in(self, name: str) -> list[str]:
        """Returns the names with this last part; whole weights before their shares."""
        ends = [n for n in self._entries if n.endswith("/" + name)]
        leaves = {n: self._entries[n].leaf for n in ends}
        whole = [n for n in ends if leaves[n].kind != "weight" or not leaves[n].call]
        return whole or ends

    def _calls(self, name: str) -> list[str]:
        """Returns the names of the calls of a layer: `conv@1`, `conv@2` for `conv`."""
        return self._alike(name, lambda leaf: leaf.name({}))

    def _parts(self, name: str) -> list[str]:
        """Returns the names of all tensors of a layer, or of one call of it."""
        starts = (f"{name}[", f"{name}:input")
        of_call = [n for n in self._entries if n.startswith(starts)]
        return of_call or self._alike(name, lambda leaf: leaf.address)

    def _alike(self, name: str, key: Callable[[Leaf], str]) -> list[str]:
        tensors = {n: e.leaf for n, e in self._entries.items() if e.kind != "weight"}
        keys = {n: key(leaf) for n, leaf in tensors.items()}
        meant = {k for k in keys.values() if k == name or k.endswith("/" + name)}
        return [n for n, k in keys.items() if len(meant) == 1 and k in meant]

    @property
    def missing(self) -> dict[str, Reason]:
        """The reason for each name that has no gradient."""
        return {n: e.reason for n, e in self._entries.items() if e.reason is not None}

    def activation(self, name: str) -> Any:
        """Returns the activation (or input) itself, from the same pass."""
        entry = self._entry(name)
        if entry.value is None and entry.kind == "weight":
            raise AddressError(
                f"`name` must be an activation or an input. Received: {name!r}, a "
                "weight. Activations are kept for `wrt=gradwatch.activations(…)`."
            )
        if entry.value is None:
            raise AddressError(f"There is no value for {entry.name!r}. {entry.reason}")
        return entry.value

    def total(self, name: str) -> Any:
        """Returns the sum of the gradients of all calls of a layer."""
        if name in self._entries or len(self._ending_in(str(name))) == 1:
            return self[name]
        calls = [n for n in self._calls(str(name)) if n in self]
        if not calls:
            return self[name]  # Raises an error that lists the names.
        shapes = {tuple(self[n].shape) for n in calls}
        if len(shapes) > 1:
            raise GradwatchError(
                f"The calls of {name!r} must have one shape to be added up. Received: "
                f"{sorted(shapes)}. Take them one by one: {quoted(calls)}."
            )
        return sum((self[n] for n in calls[1:]), start=self[calls[0]])

    def is_sparse(self, name: str) -> bool:
        """Returns whether the backend computed only some rows of this gradient."""
        return isinstance(self._entry(name).gradient, Sparse)

    def sparse(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns the indices and values of the nonzero rows of a gradient.

        Indices are sorted and unique on every backend: rows that were looked up
        several times are summed.
        """
        self._require_values()
        gradient = self._entry(name).gradient
        if not isinstance(gradient, Sparse):
            array = _numpy(self[name])
            if array.ndim == 0:
                raise GradwatchError(
                    f"`name` must have rows. Received: {name!r}, a single number. "
                    f"`g[{name!r}]` is its gradient."
                )
            rows = np.flatnonzero(np.any(array.reshape(len(array), -1) != 0, axis=1))
            return rows, array[rows]
        indices, values = _numpy(gradient.indices), _numpy(gradient.values)
        unique, inverse = np.unique(indices, return_inverse=True)
        added = np.zeros((len(unique), *values.shape[1:]), values.dtype)
        np.add.at(added, inverse, values)
        return unique, added

    # further use ----------------------------------------------------------------------

    def summary(self) -> list[Row]:
        """Returns one row of statistics per name, including missing gradients."""
        self._require_values()
        return [self._row(entry) for entry in self._entries.values()]

    def _row(self, entry: Entry) -> Row:
        name, kind, gradient = entry.name, entry.kind, entry.gradient
        if gradient is None:
            return Row.absent(name, kind, entry.shape, entry.dtype, str(entry.reason))
        if isinstance(gradient, Sparse):
            indices, values = _numpy(gradient.indices), _numpy(gradient.values)
            return summarise_rows(name, kind, indices, values, gradient.shape)
        return summarise_array(name, kind, _numpy(gradient))

    def to_numpy(self) -> dict[str, np.ndarray]:
        """Returns the gradients that exist as NumPy arrays, by name."""
        self._require_values()
        return {name: _numpy(self[name]) for name in self}

    def to_dict(self) -> dict[str, Any]:
        """Returns the contents of the printed table as plain numbers and strings."""
        # First: it raises the right error while a `tf.function` is traced.
        rows = [row.to_dict() for row in self.summary()]
        return {
            "target": self.target,
            "value": _number(self.value),
            "rows": rows,
            "missing": {name: str(reason) for name, reason in self.missing.items()},
        }

    def plot(self, ax: Axes | None = None, *, theme: ThemeName = "light") -> Figure:
        """Draws the gradient flow along depth.

        Args:
            ax: Axes to draw into. Default: a new figure.
            theme: "light" or "dark", to match the page.

        Returns:
            The matplotlib figure. Needs `pip install "gradwatch[plot]"`.
        """
        self._require_values()
        if ax is not None and not hasattr(ax, "get_figure"):
            raise GradwatchError(
                "`ax` must be matplotlib Axes. Received: an object of type "
                f"{type(ax).__name__}. Leave it out for a new figure."
            )
        order = sorted(self._entries.values(), key=lambda entry: entry.depth)
        rows = [self._row(entry) for entry in order]
        title = f"Gradient flow of {self.target}"
        return plot_flow(rows, title=title, ax=ax, theme=theme)

    def _require_values(self) -> None:
        for entry in self._entries.values():
            gradient = entry.gradient
            tensor = gradient.values if isinstance(gradient, Sparse) else gradient
            if tensor is not None and not current().is_eager(tensor):
                raise GradwatchError(
                    "Numbers exist once the function runs. Received: gradients taken "
                    "while a `tf.function` is traced. Return `g[name]` from it, or "
                    "print outside."
                )

    # display --------------------------------------------------------------------------

    def _shown(self, table: Callable[..., Any]) -> Any:
        rows = self.summary()
        title = f"Gradients of {self.target} = {_number(self.value):.6g}"
        return table(rows, title=title, footer=self._footer(rows))

    def _footer(self, rows: Sequence[Row]) -> list[str]:
        """Returns lines about non-finite data and weights, if a row or the value is."""
        if not any(row.nonfinite for row in rows) and np.isfinite(_number(self.value)):
            return []
        lines = []
        for path, tensor in keras.tree.flatten_with_path(self._data):
            name = "".join([str(path[0]), *(f"[{part}]" for part in path[1:])])
            lines += _nonfinite("The data holds", name, tensor)
        for name, variable in self._weights.items():
            lines += _nonfinite("The weights hold", name, variable.value)
        return lines

    def __str__(self) -> str:
        try:
            self._require_values()
        except GradwatchError:
            return f"<Gradients of {self.target}, symbolic: {quoted(self)}>"
        return str(self._shown(table_text))

    __repr__ = __str__

    def __rich__(self) -> Any:
        """Returns the table in colour, for `rich.print`."""
        return self._shown(table_rich)

    def _repr_html_(self) -> str:
        return str(self._shown(table_html))

    # A mapping would compare its tensors, and could not be hashed.
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def _numpy(tensor: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(tensor))


def _number(tensor: Any) -> float:
    return float(_numpy(tensor))


def _nonfinite(what: str, name: str, tensor: Any) -> list[str]:
    if tensor is None or "float" not in str(tensor.dtype):
        return []
    array = _numpy(tensor)
    bad = array.size - int(np.isfinite(array.astype("float32")).sum())
    text = f"{what} {bad:,} non-finite of {array.size:,} numbers in `{name}`."
    return [text] if bad else []
