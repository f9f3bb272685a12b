"""Diagnose: a run or a gradient in, findings out."""

from typing import TYPE_CHECKING, Any

from ._autopsy import Autopsy as Autopsy
from ._autopsy import write_autopsy as write_autopsy
from ._diagnose import UnhealthyError as UnhealthyError
from ._diagnose import assert_healthy as assert_healthy
from ._diagnose import diagnose as diagnose
from ._diagnose import find as find
from ._diagnose import nonfinite_counts as nonfinite_counts
from ._diagnose import too_few_steps as too_few_steps
from ._diagnose import why_incomplete as why_incomplete
from ._engine import RuleEngine as RuleEngine
from ._evidence import Evidence as Evidence
from ._evidence import evidence_of as evidence_of
from ._evidence import within as within
from ._finding import Finding as Finding
from ._measured import Measured as Measured
from ._rules import PATIENCE as PATIENCE
from ._rules import Snapshot as Snapshot
from ._rules import quantities as quantities
from ._rules import snapshots as snapshots
from ._symptoms import SYMPTOMS as SYMPTOMS
from ._symptoms import require_symptoms as require_symptoms

# The autopsy runs a model. Judging a run needs no Keras, and no framework.
if TYPE_CHECKING:
    from ._autopsy._verb import autopsy as autopsy
else:

    def __getattr__(name: str) -> Any:
        if name != "autopsy":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from ._autopsy._verb import autopsy

        globals()[name] = autopsy
        return autopsy
