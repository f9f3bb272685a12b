"""Quality: checks of an explanation, each one call on an attribution."""

from ._completeness import Completeness as Completeness
from ._completeness import completeness as completeness
from ._curve import Curve as Curve
from ._curves import deletion as deletion
from ._curves import insertion as insertion
from ._infidelity import Infidelity as Infidelity
from ._infidelity import infidelity as infidelity
from ._randomisation import randomisation as randomisation
from ._randomisation_result import Randomisation as Randomisation
from ._sensitivity import Sensitivity as Sensitivity
from ._sensitivity import sensitivity_max as sensitivity_max
