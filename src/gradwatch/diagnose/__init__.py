"""Diagnose: a run or a gradient in, findings out."""

from ._autopsy import autopsy as autopsy
from ._autopsy_result import Autopsy as Autopsy
from ._diagnose import UnhealthyError as UnhealthyError
from ._diagnose import assert_healthy as assert_healthy
from ._diagnose import diagnose as diagnose
from ._doctor import Doctor as Doctor
from ._finding import Finding as Finding
from ._symptoms import SYMPTOMS as SYMPTOMS
