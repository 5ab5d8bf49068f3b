"""Which model to judge next: a function of what is recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """A model to judge, and older ones that it makes superfluous."""

    candidate: int
    skipped: tuple[int, ...] = ()


def choose(
    versions: Iterable[int],
    judged: Iterable[int],
    *,
    genesis: bool,
    gate: bool,
    begun: int | None = None,
) -> Work | None:
    """The next model to judge; None when none waits.

    Models are judged in their order, so whatever is older than one that was judged waits no more.
    The first model of a run becomes the best, whatever it is. With the gate open each model does,
    in its turn. Otherwise the newest is played: it was trained the longest, and matches cost more
    than models. A match that has begun is finished first.

    Args:
        versions: every model of the run.
        judged: those with a verdict of a match, or a promotion.
        genesis: whether there is no best model yet.
        gate: whether a match decides.
        begun: the candidate of an unfinished match against the present best.
    """
    newest_judged = max(judged, default=0)
    waiting = sorted(version for version in versions if version > newest_judged)
    if not waiting:
        return None
    if genesis or not gate:
        return Work(waiting[0])
    candidate = begun if begun in waiting else waiting[-1]
    return Work(candidate, tuple(version for version in waiting if version < candidate))
