"""A network of one's own for tests of the trainer."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from zerofleet.network import Network, Outputs, Shapes, Targets, data_losses


class Searching(Network):
    """Learns all that the searches and the end of a game tell."""

    @dataclass(frozen=True)
    class Options:
        """Keys of ``[network]``."""

        width: int = 16

    training_only = ("further",)
    extra_targets = ("plies_to_end", "root_value", "search_surprise")

    def __init__(self, shapes: Shapes, options: Options) -> None:
        super().__init__(shapes)
        self.hidden = nn.Linear(shapes.planes * shapes.points, options.width)
        self.policy = nn.Linear(options.width, shapes.num_actions)
        self.value = nn.Linear(options.width, 3)
        self.further: nn.Linear | None = nn.Linear(options.width, 3)

    def forward(self, planes: Tensor) -> Outputs:
        hidden = self.hidden(planes.flatten(1)).relu()
        named = {} if self.further is None else {"further": self.further(hidden)}
        return Outputs(self.policy(hidden), self.value(hidden), named)

    def losses(self, outputs: Outputs, targets: Targets) -> dict[str, Tensor]:
        found = outputs.named["further"].split(1, dim=1)
        scales = {"root_value": 1.0, "search_surprise": 1.0, "plies_to_end": 9.0}
        return data_losses(outputs, targets) | {
            name: (ours - targets.named[name] / scale).square().mean()
            for ours, (name, scale) in zip(found, scales.items(), strict=True)
        }
