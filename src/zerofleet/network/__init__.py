"""The network: a residual tower with two heads, its loss and optimiser, and its export to ONNX.

Architecture and loss are those of AlphaGo Zero (Silver et al., Nature 550, 2017, Methods,
"Neural network architecture" and "Optimisation"); blocks that see the whole board, the average of
weights and the scaled loss are options.
"""

from zerofleet.network.average import WeightAverage
from zerofleet.network.export import export_onnx
from zerofleet.network.loss import Losses, l2_penalty, losses
from zerofleet.network.loss_scale import LossScale
from zerofleet.network.model import PolicyValueNet
from zerofleet.network.momentum import Momentum

__all__ = [
    "LossScale",
    "Losses",
    "Momentum",
    "PolicyValueNet",
    "WeightAverage",
    "export_onnx",
    "l2_penalty",
    "losses",
]
