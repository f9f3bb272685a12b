"""Diagnose: a run or a gradient in, findings out."""

from typing import TYPE_CHECKING, Any

from ._autopsy import Autopsy as Autopsy
from ._diagnose import UnhealthyError as UnhealthyError
from ._diagnose import assert_healthy as assert_healthy
from ._diagnose import diagnose as diagnose
from ._diagnose import judged as judged
from ._diagnose import nonfinite_counts as nonfinite_counts
from ._diagnose import too_few as too_few
from ._diagnose import untold as untold
from ._doctor import Doctor as Doctor
from ._evidence import Evidence as Evidence
from ._evidence import evidence_of as evidence_of
from ._finding import Finding as Finding
from ._measured import Measured as Measured
from ._panels import within as within
from ._rules import PATIENCE as PATIENCE
from ._symptoms import SYMPTOMS as SYMPTOMS
from ._symptoms import require_symptoms as require_symptoms

# The autopsy runs a model. Who only judges a run needs no Keras, and no framework.
if TYPE_CHECKING:
    from ._autopsy._keep import write_autopsy as write_autopsy
    from ._autopsy._verb import autopsy as autopsy
else:

    def __getattr__(name: str) -> Any:
        if name == "autopsy":
            from ._autopsy._verb import autopsy as found
        elif name == "write_autopsy":
            from ._autopsy._keep import write_autopsy as found
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found
