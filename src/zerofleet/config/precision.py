"""Models in fewer bits beside the fp32 ones: ``[precision]``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from zerofleet.config.section import Section

VariantPrecision = Literal["int8", "fp16"]


def _each_once(value: tuple[VariantPrecision, ...]) -> tuple[VariantPrecision, ...]:
    if len(set(value)) != len(value):
        raise ValueError("name each precision once")
    return value


class PrecisionSection(Section):
    """``[precision]``: variants of each model, and what they may lose against fp32."""

    variants: Annotated[tuple[VariantPrecision, ...], AfterValidator(_each_once)] = ()
    """Precisions that each model is published in beside fp32: ``int8`` for CPUs, ``fp16`` for
    GPUs."""
    max_policy_kl: float = Field(default=0.001, gt=0)
    """A variant is refused when its policy diverges further than this from that of fp32
    (Kullback-Leibler, in nats, mean over the positions of the check)."""
    max_value_difference: float = Field(default=0.02, gt=0)
    """A variant is refused when its value differs by more than this (absolute, mean over the
    same)."""
    calibration_positions: int = Field(default=512, ge=1)
    """Positions of the window's training part from which int8 takes its ranges; of random play
    while the window has fewer."""
    check_positions: int = Field(default=1024, ge=1)
    """Positions of the held-out part that a variant is checked on; of random play while there are
    fewer."""
