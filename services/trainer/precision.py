"""Numbers of 16 bits where they are fast enough to matter and exact enough to learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from zerofleet.network import LossScale

Wanted = Literal["auto", "off", "bf16", "fp16"]


class Precision:
    """The precision of the forward pass; weights, losses and momentum are float32 always.

    Args:
        wanted: auto takes bf16 on a GPU that has it, and float32 anywhere else.
        device: where the network is.
    """

    def __init__(self, wanted: Wanted, device: torch.device) -> None:
        self._device = device
        self.dtype = _dtype(wanted, device)
        # bf16 has float32's range: only fp16 loses small gradients.
        self.loss_scale = LossScale() if self.dtype is torch.float16 else None

    def predict(
        self, network: Callable[[Tensor], tuple[Tensor, Tensor]], observations: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The network's answers in float32, computed in this precision."""
        if self.dtype is None:
            return network(observations)
        with torch.autocast(self._device.type, dtype=self.dtype):
            policy_logits, value = network(observations)
        return policy_logits.float(), value.float()

    def scaled(self, loss: Tensor) -> Tensor:
        """The loss to go backward from."""
        return loss if self.loss_scale is None else loss * self.loss_scale.scale

    def unscale(self, gradient: Tensor) -> bool:
        """Undo ``scaled`` in the gradient, in place; whether the gradient can be used."""
        return self.loss_scale is None or self.loss_scale.unscale(gradient)


def _dtype(wanted: Wanted, device: torch.device) -> torch.dtype | None:
    if wanted == "auto":
        modern = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if modern else None
    return {"off": None, "bf16": torch.bfloat16, "fp16": torch.float16}[wanted]
