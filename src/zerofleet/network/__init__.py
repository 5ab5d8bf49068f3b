"""The network: a residual tower with two heads, its loss and optimiser, and its export to ONNX.

Architecture and loss are those of AlphaGo Zero (Silver et al., Nature 550, 2017, Methods,
"Neural network architecture" and "Optimisation").
"""

from zerofleet.network.export import export_onnx
from zerofleet.network.loss import Losses, l2_penalty, losses
from zerofleet.network.model import PolicyValueNet
from zerofleet.network.momentum import Momentum

__all__ = ["Losses", "Momentum", "PolicyValueNet", "export_onnx", "l2_penalty", "losses"]
