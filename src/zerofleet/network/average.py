"""The exponential average of a network's snapshots: steadier than the last of them."""

from __future__ import annotations

import copy

import torch

from zerofleet.network.model import PolicyValueNet


class WeightAverage:
    """``average = decay * average + (1 - decay) * snapshot``, weights and running figures alike.

    Wu 2019 (arXiv 1902.10565), appendix C ("weight averaging", after Izmailov et al. 2018). Batch
    normalisation's running means and variances are averaged with the weights, so the average needs
    no pass over data. The first snapshot replaces the random first weights.

    Args:
        network: copied; ``network`` of the average is in evaluation mode for ever.
        decay: share that is kept at each snapshot.
    """

    def __init__(self, network: PolicyValueNet, decay: float) -> None:
        self._decay = decay
        self.network = copy.deepcopy(network).eval().requires_grad_(False)

    @torch.no_grad()
    def add(self, snapshot: PolicyValueNet, *, first: bool) -> None:
        """Take a snapshot in.

        Args:
            snapshot: a network of the same sizes; only read.
            first: whether no snapshot was taken before it.
        """
        share = 1.0 if first else 1.0 - self._decay
        ours, theirs = self.network.state_dict(), snapshot.state_dict()
        for name, average in ours.items():
            if average.is_floating_point():
                average.lerp_(theirs[name], share)
            else:
                average.copy_(theirs[name])  # a count of batches
