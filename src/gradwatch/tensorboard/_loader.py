"""The entry point that TensorBoard loads at its start: small, and it never raises.

An error in an entry point would end the whole `tensorboard` command, also where the tab
is never opened.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

from tensorboard.plugins import base_plugin


class Loader(base_plugin.TBLoader):
    """Creates the plugin, or starts TensorBoard without it."""

    def fix_flags(self, flags: argparse.Namespace) -> None:
        """Asks TensorBoard to keep every step of runs that are not on a local disk.

        Of a plugin's tag it keeps a random ten or hundred. The tab reads runs on a
        local disk itself; of others, such as those in a bucket, it has what is kept.
        """
        try:
            where = f"{flags.logdir or ''},{flags.logdir_spec or ''}"
            if "://" in where:
                flags.samples_per_plugin = {
                    "gradwatch": 0,  # all
                    **(flags.samples_per_plugin or {}),
                }
        except Exception as error:  # noqa: BLE001 - see above
            _without(error)

    def load(self, context: base_plugin.TBContext) -> Any:
        """Returns the plugin; `None`, with a warning, if it cannot be created."""
        try:
            from ._plugin import GradientsPlugin

            return GradientsPlugin(context)
        except Exception as error:  # noqa: BLE001 - see above
            _without(error)
            return None


def _without(error: Exception) -> None:
    warnings.warn(
        f"gradwatch: TensorBoard starts without the Gradients tab, because of "
        f"{type(error).__name__}: {error}",
        RuntimeWarning,
        stacklevel=3,
    )
