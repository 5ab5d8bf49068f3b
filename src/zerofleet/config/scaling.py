"""How many self-play workers and inference replicas are useful: ``[scaling]``."""

from __future__ import annotations

from pydantic import Field, model_validator

from zerofleet.config.section import Section


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
