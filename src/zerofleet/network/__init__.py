"""The network: a residual tower with two heads, its loss and optimiser, and its export to ONNX.

Architecture and loss are those of AlphaGo Zero (Silver et al., Nature 550, 2017, Methods,
"Neural network architecture" and "Optimisation"); blocks that see the whole board, heads that
only training asks, the average of weights and the scaled loss are options.
"""

from zerofleet.network.export import export_onnx
from zerofleet.network.loss import Losses, LossScale, l2_penalty, losses
from zerofleet.network.optimizer import AdamW, Momentum, Muon
from zerofleet.network.policy_value_net import PolicyValueNet, WeightAverage

__all__ = [
    "AdamW",
    "LossScale",
    "Losses",
    "Momentum",
    "Muon",
    "PolicyValueNet",
    "WeightAverage",
    "export_onnx",
    "l2_penalty",
    "losses",
]
