"""The result of attributing: which numbers drove a prediction, and by how much."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import AddressError, counted, quoted, require
from ..show.attributed import panels_html, plot_panels
from . import _store as store
from ._checked import per_axis
from ._panels import panels_of, title_of
from ._place import Place

if TYPE_CHECKING:
    from ..show import Figure, ThemeName


NUMBERS = ("score", "baseline_score", "delta")
"""The attributes that have a number for each example."""


@dataclass(frozen=True, eq=False, repr=False)
class Attribution:
    """Attributions of a target to inputs, or to activations of layers.

    Example:
    >>> import gradwatch as gw, keras, numpy as np
    >>> model = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.Flatten()])
    >>> a = gw.input_x_gradient(model, np.ones((2, 4, 4, 3)), gw.class_score(5))
    >>> a.values.shape, a.sum_channels().values.shape
    ((2, 4, 4, 3), (2, 4, 4))
    >>> a.method, a.target, a.layer
    ('input_x_gradient', 'class_score(5)', None)

    Attributes:
        places: One `Place` for each tensor that was attributed to.
        sources: The inputs of the model; their `values` are the inputs themselves.
        method: The name of the function that made it.
        target: What was explained, in words.
        layer: The layer asked for, in words; None for the inputs of the model.
        score: The target's value for each example.
        delta: For methods that promise completeness, how far the sum of an example's
            values is from `score - baseline_score`; else None.
        baseline_score: The target's value at the baseline, where there is one.
        settings: What was used: steps, baseline, samples, seed.
        again: Explains another batch, or another model, in the same way:
            `again(model, x)`.
    """

    places: tuple[Place, ...]
    sources: tuple[Place, ...]
    method: str
    target: str
    score: np.ndarray
    layer: str | None = None
    delta: np.ndarray | None = None
    baseline_score: np.ndarray | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    again: Callable[[Any, Any], Attribution] | None = None

    # contents ------------------------------------------------------------------------

    @property
    def values(self) -> Any:
        """The attributions: an array, or a dict by name where there are several."""
        return single({place.name: place.values for place in self.places})

    @property
    def activation(self) -> Any:
        """The tensors attributed to: the inputs, or what the layer gave."""
        return single({place.name: place.activation for place in self.places})

    @property
    def inputs(self) -> Any:
        """The inputs of the model: an array, or a dict by name."""
        return single({place.name: place.values for place in self.sources})

    @property
    def names(self) -> list[str]:
        """The addresses of the tensors attributed to."""
        return [place.name for place in self.places]

    def place(self, name: str | None = None) -> Place:
        """Returns one tensor of several by name; the only one without a name.

        Raises:
            AddressError: If there is none, or several and none is named.
        """
        if name is None and len(self.places) == 1:
            return self.places[0]
        for place in self.places:
            if place.name in (name, f"inputs[{name}]"):
                return place
        raise AddressError(
            f"`name` must be one of {quoted(self.names)}. Received: {name!r}."
        )

    def __len__(self) -> int:
        return len(self.score)

    def __getitem__(self, examples: int | slice | Sequence[int]) -> Attribution:
        """Returns the attribution of some of the examples; the batch axis stays."""
        rows = rows_of(examples, len(self))  # its error is also what ends an iteration

        numbers = {name: getattr(self, name) for name in NUMBERS}
        some: Any = {k: None if n is None else n[rows] for k, n in numbers.items()}
        places = tuple(place.take(rows) for place in self.places)
        sources = tuple(place.take(rows) for place in self.sources)
        return replace(self, places=places, sources=sources, again=None, **some)

    def __repr__(self) -> str:
        where = ", ".join(f"{p.name} {p.values.shape}" for p in self.places)
        text = f"<Attribution of {self.target} to {where} by {self.method}"
        if self.delta is not None and len(self.delta):
            text += f", delta at most {np.max(np.abs(self.delta)):.2g}"
        return text + ">"

    # other forms ----------------------------------------------------------------------

    def sum_channels(self) -> Attribution:
        """Returns one number per position: pixel, time step, token.

        Sums keep completeness: what they add up to is the same.

        Raises:
            GradwatchError: If nothing here has a channel axis.
        """
        if all(place.channels is None for place in self.places):
            self.places[0].sum_channels()
        places = [p if p.channels is None else p.sum_channels() for p in self.places]
        return replace(self, places=tuple(places))

    def upsample(self, size: int | Sequence[int] | None = None) -> Attribution:
        """Returns the values resized in space and time, linearly.

        Args:
            size: The new length of each axis but the batch's and the channels'. None:
                that of the model's input.

        Raises:
            GradwatchError: If the values have no such axes, or the input has others.
        """
        only = len(self.places) == 1
        places = [
            p.upsample(self._size_for(p, size)) if p.spatial or only else p
            for p in self.places
        ]
        return replace(self, places=tuple(places))

    def _size_for(self, place: Place, size: Any) -> tuple[int, ...]:
        axes = len(place.spatial)
        if size is not None:
            return per_axis(size, axes, "size")
        alike = [s for s in self.sources if axes and len(s.spatial) == axes]
        sizes = {tuple(s.values.shape[axis] for axis in s.spatial) for s in alike}
        shapes = [source.values.shape for source in self.sources]
        rule = f"`upsample` needs values with the spatial axes of an input of {shapes}."
        received = place.name, place.values.shape
        require(len(sizes) == 1, rule, received, "Give `size=`.")
        return sizes.pop()

    # pictures -------------------------------------------------------------------------

    def plot(
        self,
        *,
        kind: str | None = None,
        names: Any = None,
        tokens: Any = None,
        titles: Any = None,
        beside: Any = None,
        top: int = 12,
        theme: ThemeName = "light",
    ) -> Figure:
        """Draws what drives the target: heat on pictures and words, bars, strips.

        What is drawn follows from the data. Pictures are shown beside their heat, also
        that of a layer, which is resized to them; of volumes, the three middle slices.
        Tokens stand on a coloured ground, series on a ground and above a strip for each
        channel; rows of a table become bars, the largest on top. Several inputs are
        several panels. At most 8 examples are drawn: `a[8:16].plot()` for the next.

        Orange speaks for the target and blue against it; where nothing is below zero,
        as in class activation maps, colours run from faint to strong. A scale ends at
        the 99th percentile of the absolute values, so that a spike does not hide the
        rest. Numbers that are not finite are drawn in black (white on dark), and
        counted in words.

        The figure is not known to `pyplot`, so nothing stays open: a notebook shows it,
        `figure.savefig(path)` saves it.

        Example:
        >>> import gradwatch as gw, keras, numpy as np
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        >>> a = gw.input_x_gradient(model, np.ones((1, 3)), gw.class_score(1))
        >>> figure = a.plot(names=["age", "height", "weight"])
        >>> figure.savefig("why.png")

        Args:
            kind: `"image"`, `"tokens"`, `"bars"` or `"lines"`, to have it otherwise.
            names: Of the features of a row, or of the channels of a series; a dict by
                input where there are several.
            tokens: The words of each example, as lists of strings; shorter lists and
                empty strings leave out padding. By default the numbers of the tokens.
            titles: A line for each example; by default the target's value.
            beside: Other attributions of the same inputs, drawn beside this one.
            top: The most bars of an example; the others are added up into one.
            theme: `"light"` or `"dark"`.

        Returns:
            The matplotlib figure. Needs `pip install "gradwatch[plot]"`.

        Raises:
            GradwatchError: If an argument does not suit the data.
        """
        panels = panels_of(self, beside, kind, names, tokens, titles, top)
        return plot_panels(panels, title=title_of(self), theme=theme)

    def to_html(
        self,
        *,
        kind: str | None = None,
        names: Any = None,
        tokens: Any = None,
        titles: Any = None,
        beside: Any = None,
        top: int = 12,
    ) -> str:
        """Returns the same as `plot` in HTML, for a notebook or a page of your own.

        One piece that loads nothing and runs no script; every word is escaped. It takes
        on the colours of the page, light or dark.

        Example:
        >>> import gradwatch as gw, keras, numpy as np
        >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
        >>> a = gw.input_x_gradient(model, np.ones((1, 2)), gw.class_score(1))
        >>> "&lt;b&gt;" in a.to_html(names=["<b>", "age"])
        True

        Args:
            kind: As in `plot`.
            names: As in `plot`.
            tokens: As in `plot`.
            titles: As in `plot`.
            beside: As in `plot`.
            top: As in `plot`.

        Raises:
            GradwatchError: If an argument does not suit the data.
        """
        panels = panels_of(self, beside, kind, names, tokens, titles, top)
        return panels_html(panels, title=title_of(self))

    def _repr_html_(self) -> str:
        # A notebook shows whatever there is, and be it nothing.
        return self.to_html() if len(self) else f"<pre>{html.escape(repr(self))}</pre>"

    # on disk --------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything into a NumPy `.npz` file; `Attribution.load` reads it.

        Example:
        >>> import gradwatch as gw, keras, numpy as np
        >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        >>> a = gw.saliency(model, np.ones((1, 3)), gw.class_score(1))
        >>> a.save("why.npz")
        >>> gw.Attribution.load("why.npz").target
        'class_score(1)'
        """
        store.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Attribution:
        """Reads what `save` wrote.

        Raises:
            GradwatchError: If the file holds something else.
        """
        return cls(**store.load(path))


def single(arrays: dict[str, Any]) -> Any:
    """Returns the only array there is, or all of them by name."""
    return next(iter(arrays.values())) if len(arrays) == 1 else arrays


def rows_of(examples: Any, count: int) -> Any:
    """Returns a slice as it is, and the rows of one example, of some or of a mask.

    Raises:
        IndexError: If there are no such examples.
    """
    if isinstance(examples, slice):
        return examples
    try:
        index = np.atleast_1d(examples) if np.size(examples) else slice(0)
        return np.arange(count)[index]
    except IndexError:
        number = counted(count, "example")
        raise IndexError(
            f"There are {number}. Received: {examples!r}. A mask must have one value "
            f"for each of the {number}."
        ) from None
