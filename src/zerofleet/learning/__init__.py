"""Learning: the network, its loss and optimizers, the training window, and export to ONNX.

Architecture and loss follow AlphaGo Zero (Silver et al., Nature 550, 2017, Methods, "Neural network
architecture" and "Optimisation"). Pooled blocks, auxiliary heads, the average of weights and the
scaled loss are options.

- ``build``: the network that a run file names; ``residual``: our network, with its own tower
  or the one of ``attention``.
- ``loss``: losses of the auxiliary heads; ``optimizer``: SGD with momentum, AdamW, Muon, and the
  average of weights.
- ``learner``: gradient steps, and their precision; ``measurement``: a network's quality of
  prediction.
- ``window``: the recent games, read in commit order, with a validation set, and the train bucket:
  the number of samples that these games allow.
- ``schedule``: learning rates and window sizes; ``overfit``: detects overfitting.
- ``export``: the ONNX file, and the golden positions that check it.
"""

from zerofleet.learning.build import make_network
from zerofleet.learning.export import export_onnx
from zerofleet.learning.learner import Learner
from zerofleet.learning.loss import LossScale, l2_penalty
from zerofleet.learning.optimizer import AdamW, Momentum, Muon, WeightAverage
from zerofleet.learning.residual import BoardNetwork

__all__ = [
    "AdamW",
    "BoardNetwork",
    "Learner",
    "LossScale",
    "Momentum",
    "Muon",
    "WeightAverage",
    "export_onnx",
    "l2_penalty",
    "make_network",
]
