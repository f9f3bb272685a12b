"""Training runs in which it is known what is wrong, and runs in which nothing is.

Each family builds its data and a small model from a seed, and trains for sixty steps
under the callbacks it is given.

Example:
>>> from gradwatch.testing import faults
>>> fault = faults.by_name("slow-sgd-mlp")
>>> sorted(fault.symptoms), fault.healthy
(['small-updates'], False)
>>> model = fault.train(0, [])
>>> len(model.history.history["loss"])
3
"""

from ._case import Fault as Fault
from ._suite import FAULTS as FAULTS
from ._suite import by_name as by_name
from ._suite import healthy as healthy
from ._suite import sick as sick
