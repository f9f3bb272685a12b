"""Testing: models of every kind, models with known gradients, and a trace detector."""

from ._case import Case as Case
from ._known import Known as Known
from ._known import known as known
from ._untouched import assert_untouched as assert_untouched
from ._zoo import zoo as zoo
