"""What `gradwatch.Tape` stands on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..._errors import GradwatchError
from .._protocol import Tensor
from .passes import gradient_of
from .recorder import Recorder


class Tape:
    """What `gradwatch.Tape` stands on: torch's own graph."""

    def __init__(self) -> None:
        self.recorder = Recorder()
        self._frozen: list[Tensor] = []

    def __enter__(self) -> Tape:
        return self

    def __exit__(self, *exception: object) -> None:
        self._thaw(False)

    def watch(self, variable: Any) -> None:
        """Frozen parameters take part in the graph until the tape is left."""
        self.watch_tensor(variable.value)

    def watch_tensor(self, tensor: Tensor) -> None:
        """Makes a plain tensor part of the graph until the tape is left."""
        if not tensor.requires_grad:
            self._frozen.append(tensor)
            tensor.requires_grad_(True)

    def _thaw(self, on: bool) -> None:
        for parameter in self._frozen:
            parameter.requires_grad_(on)

    def gradient(self, target: Tensor, sources: Sequence[Any]) -> list[Any]:
        """Differentiates; may be asked again."""
        native = [s if torch.is_tensor(s) else s.value for s in sources]
        self._thaw(True)
        try:
            return gradient_of(target.sum(), native)
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            raise GradwatchError(
                "On torch, a tape must be asked before the weights change: the graph "
                "holds the weights, not copies. Received: a question after an update. "
                "Call `tape.gradients(loss)` before the optimizer's step."
            ) from error
        finally:
            self._thaw(False)

    def native_gradient(
        self, target: Tensor, sources: Sequence[Any], **options: Any
    ) -> list[Any]:
        """As `gradient`; the further arguments of TensorFlow's have no meaning here."""
        if options:
            raise GradwatchError(
                "`tape.gradient` takes further arguments on TensorFlow only. Received: "
                f"{', '.join(options)}. Leave them out."
            )
        return self.gradient(target, sources)

    def detached(self, target: Tensor) -> Tensor:
        """Returns the value of the target."""
        return target.detach()
