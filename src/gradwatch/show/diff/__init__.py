"""Two runs become what differs between them."""

from ._compare import Difference as Difference
from ._compare import LayerDifference as LayerDifference
from ._compare import compare as compare
