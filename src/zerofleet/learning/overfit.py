"""The overfit watch: detects when validation games are predicted worse than training games.

Both splits are measured on equal samples of the same network. The gap is the validation loss minus
the training loss, averaged exponentially over measurements from 0 on. Overfitting begins when the
policy's or the value's gap is above its maximum and above twice its standard error, which counts
games, not positions. It ends when both gaps are at or under half of their maxima. In between, the
state stays as it is, so that a gap near its maximum does not switch at each measurement. Too few
validation positions give no gap at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from zerofleet.config import OverfitSection
from zerofleet.fleet.figures import Measurement

Event = Literal["overfit_begins", "overfit_ends"]

END_SHARE = 0.5
ERRORS = 2.0


@dataclass(slots=True)
class OverfitWatch:
    """The state of the watch; all of it is kept in checkpoints.

    Args:
        settings: maxima, smoothing, and what to do.
        policy_gap: smoothed, nats; None while nothing is known.
        value_gap: smoothed, squared error; None while nothing is known.
        active: whether the run currently overfits.
        renewed_at: positions received by which the window from the start of the wait is renewed.
    """

    settings: OverfitSection
    policy_gap: float | None = None
    value_gap: float | None = None
    active: bool = False
    renewed_at: int = 0

    @property
    def waits(self) -> bool:
        """Whether training must wait."""
        return self.active and self.settings.action == "wait"

    @property
    def pace(self) -> float:
        """Share of ``samples_per_position`` that a new position currently allows."""
        slows = self.active and self.settings.action == "slow"
        return self.settings.slow_factor if slows else 1.0

    def observe(
        self,
        train: Measurement,
        held_out: Measurement,
        held_out_positions: int,
        received: int,
        window_positions: int,
    ) -> Event | None:
        """Take in one measurement of both splits.

        Args:
            train: on training games.
            held_out: on validation games, by the same network.
            held_out_positions: positions that the second was drawn from.
            received: positions received since the run began.

        Returns:
            The change caused by this measurement, if any.
        """
        if held_out_positions < self.settings.min_positions:
            return None
        self.policy_gap = self._smoothed(self.policy_gap, held_out.policy_loss - train.policy_loss)
        self.value_gap = self._smoothed(self.value_gap, held_out.value_loss - train.value_loss)
        most_policy, most_value = self.settings.max_policy_gap, self.settings.max_value_gap
        if self.active:
            closed = max(self.policy_gap / most_policy, self.value_gap / most_value) <= END_SHARE
            self.active = not closed
            return "overfit_ends" if closed else None
        if _is_wide(
            self.policy_gap, most_policy, train.policy_error, held_out.policy_error
        ) or _is_wide(self.value_gap, most_value, train.value_error, held_out.value_error):
            self.active, self.renewed_at = True, received + window_positions
            return "overfit_begins"
        return None

    def look_at_window(self, received: int) -> Event | None:
        """End a wait when the window has taken in as many positions as it held at the beginning.

        All data that was overfit to has then left the window. The gaps start again from nothing, so
        that the smoothed ones do not start the wait again. This bounds every wait.
        """
        if not self.waits or received < self.renewed_at:
            return None
        self.active, self.policy_gap, self.value_gap = False, None, None
        return "overfit_ends"

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "policy_gap": self.policy_gap,
            "value_gap": self.value_gap,
            "active": self.active,
            "renewed_at": self.renewed_at,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state()``; an empty one belongs to a run that has only begun."""
        self.policy_gap = state.get("policy_gap")
        self.value_gap = state.get("value_gap")
        self.active = state.get("active", False)
        self.renewed_at = state.get("renewed_at", 0)

    def explain(self) -> str:
        """Return the gaps and their maxima in words."""
        if self.policy_gap is None or self.value_gap is None:
            return "the window was renewed"
        return (
            f"held-out above training loss by {self.policy_gap:.3f} nats of policy "
            f"(most {self.settings.max_policy_gap:g}) and {self.value_gap:.3f} of value "
            f"(most {self.settings.max_value_gap:g})"
        )

    def consequence(self, samples_per_position: float) -> str:
        """Return the consequence for training in words."""
        if self.waits:
            return "no step until both gaps are half their maximum or the window is renewed"
        if self.pace < 1:
            return f"a new position pays for {self.pace * samples_per_position:g} samples"
        return f"a new position pays for {samples_per_position:g} samples"

    def _smoothed(self, before: float | None, gap: float) -> float:
        return self.settings.smoothing * (before or 0.0) + (1 - self.settings.smoothing) * gap


def _is_wide(gap: float, most: float, *errors: float | None) -> bool:
    """Return whether a gap is above its maximum, and too large to be chance."""
    known = [error for error in errors if error is not None]
    return len(known) == len(errors) and gap > max(most, ERRORS * math.hypot(*known))
