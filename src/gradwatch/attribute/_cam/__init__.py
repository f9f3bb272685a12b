"""CAM family: maps of a layer, its channels added up with weights."""

from ._grad_cam import grad_cam as grad_cam
from ._grad_cam import grad_cam_plus_plus as grad_cam_plus_plus
from ._grad_cam import layer_cam as layer_cam
from ._guided_grad_cam import guided_grad_cam as guided_grad_cam
from ._score_cam import score_cam as score_cam
