"""The same rule as advice for a person, from a single look: ``zerofleet status``."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.config import ScalingSection
from zerofleet.scaling.fleet import Fleet
from zerofleet.scaling.need import need_of
from zerofleet.scaling.reason import whole, within
from zerofleet.scaling.words import figures_text, inference_text, one_machine_text


@dataclass(frozen=True, slots=True)
class Advice:
    """How many self-play workers would be used."""

    workers: int
    """That there are."""
    useful: int | None
    """That would be used; None while figures are missing."""
    words: str


def advise(fleet: Fleet, section: ScalingSection, cores: int | None = None) -> Advice:
    """What the rule thinks of the fleet as it is.

    Args:
        fleet: at one moment.
        section: bounds of the run file; ``max_workers`` is the autoscaler's, not a person's.
        cores: of the machine that all run on; None: there are several machines.
    """
    workers = round(fleet.workers)
    there = f"self-play: {workers} worker" + ("" if workers == 1 else "s")
    if fleet.missing:
        return Advice(workers, None, f"{there}; no advice yet: {fleet.missing}")
    need = need_of(fleet, section)
    if section.shrink_below * workers <= need.workers <= section.grow_above * workers:
        return Advice(workers, workers, f"{there}; enough: {figures_text(need)}")
    useful = within(1, whole(need.workers), 2 * max(workers, 1))
    if useful > workers and (need.wait >= section.max_wait or need.fed < workers + 1):
        words = (
            inference_text(need, section, round(fleet.replicas))
            if cores is None
            else one_machine_text(need, section)
        )
        return Advice(workers, workers, f"{there}; {words}")
    if useful > workers:
        useful = max(workers, int(min(useful, need.fed)))
    if useful == workers:
        return Advice(workers, workers, f"{there}; enough: {figures_text(need)}")
    words = f"{there}; {useful} would be used: {figures_text(need)}"
    if cores is not None and useful > max(workers, cores):
        words += f", but this machine has {cores} cores"
    return Advice(workers, useful, words)
