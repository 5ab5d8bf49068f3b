"""How models predict, and how many processes: ``[precision]``, ``[inference]``, ``[scaling]``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

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
    max_policy_kl: float = Field(default=0.005, gt=0)
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


class InferenceSection(Section):
    """``[inference]``: how predictions are batched, and what they are computed on."""

    max_batch_rows: int = Field(default=1024, ge=1)
    """Most rows of one batch; also the most of one request."""
    max_queue_rows: int = Field(default=16_384, ge=1)
    """Rows that may wait; beyond, requests are refused with RESOURCE_EXHAUSTED."""
    sessions: int = Field(default=0, ge=0)
    """Batches that are computed side by side: on the CPU on one thread each; on a GPU a second one
    overlaps copies with computation. 0: one on the CPU, two on a GPU."""
    provider: Literal["auto", "cpu", "cuda", "tensorrt", "openvino"] = "auto"
    """What the network runs on; ``auto`` is CUDA where the installed ONNX Runtime has it and it
    works, else the CPU."""
    require_gpu: bool = False
    """End with an error rather than run on anything but a GPU."""
    precision: Literal["auto", "fp32", "int8", "fp16"] = "auto"
    """Which variant of a model answers, where it was published and accepted; ``auto`` measures
    which is fastest here and takes another one than fp32 when it is at least 15% faster."""


class ScalingSection(Section):
    """``[scaling]``: the rule of the autoscaler and of the advice in ``zerofleet status``."""

    min_workers: int = Field(default=1, ge=1)
    """Fewest self-play workers that are asked for."""
    max_workers: int = Field(default=100, ge=1)
    """Most self-play workers that are asked for."""
    min_inference: int = Field(default=1, ge=1)
    """Fewest inference replicas that are asked for."""
    max_inference: int = Field(default=1, ge=1)
    """Most inference replicas that are asked for; 1: inference stays one."""
    grow_above: float = Field(default=1.1, ge=1.1)
    """More workers are asked for when this many times those that there are would be used;
    Kubernetes overlooks steps of less than a tenth."""
    shrink_below: float = Field(default=0.8, gt=0, lt=1)
    """Fewer are asked for when less than this share of those that there are was of use ..."""
    shrink_after_seconds: float = Field(default=600.0, gt=0)
    """... all this time."""
    max_wait: float = Field(default=1.0, gt=0)
    """Queue wait of a request / computation of a batch from which on more workers do not help."""
    inference_load: float = Field(default=0.8, gt=0, le=1)
    """Share of their capacity in rows a second that inference replicas are planned for."""
    window_seconds: float = Field(default=60.0, gt=0)
    """Figures are means over this long."""
    every_seconds: float = Field(default=10.0, gt=0)
    """The fleet is looked at this often."""

    @model_validator(mode="after")
    def _least_before_most(self) -> ScalingSection:
        for least, most in (("min_workers", "max_workers"), ("min_inference", "max_inference")):
            low, high = getattr(self, least), getattr(self, most)
            if low > high:
                raise ValueError(
                    f"{least} = {low} is above {most} = {high}: lower the first or raise the second"
                )
        return self
