"""The figures of checks of attributions. Importing it needs matplotlib."""

from .._plot import needs_matplotlib

with needs_matplotlib():
    from ._draw import plot_curves as plot_curves
    from ._draw import plot_randomisation as plot_randomisation
