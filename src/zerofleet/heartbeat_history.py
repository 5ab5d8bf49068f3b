"""What heartbeats said in the last 24 hours: a stream in Redis for each process.

A note every ten seconds, at most 8,640 of them; what a process has noted disappears a day after its
last. Nothing is decided by it, and Redis may be wiped: then history begins anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, cast

from zerofleet.figures import Figures, TrainerFigures, numbers
from zerofleet.redis_connection import open_redis, our_errors

NOTE_SECONDS = 10.0
KEPT_SECONDS = 24 * 3600
KEPT_NOTES = int(KEPT_SECONDS / NOTE_SECONDS)
NOTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "selfplay": (
            *("games_per_hour", "positions_per_s", "simulations_per_s"),
            *("training_positions_per_second", "waiting_share", "pause_share", "cache_hit_rate"),
        ),
        "inference": (
            *("rows_per_second", "capacity_rows_per_second", "batch_mean", "fill"),
            *("queue_wait_per_compute", "queue_rows", "model_version"),
        ),
        "trainer": (
            *("positions", "unspent_positions", "samples_per_position", "pace", "learning_rate"),
            *("reuse", "wait_share", "samples_per_second"),
        ),
        "evaluator": ("match_games", "match_score", "match_llr", "rating_games"),
        "autoscaler": ("selfplay_replicas", "inference_replicas"),
    }
)
"""The figures that are noted, by service; named as in the heartbeat and in the metrics."""

_SCAN_COUNT = 1000


def history_key(run: str, service: str, process: str) -> str:
    """Where the notes of a process are."""
    return f"zerofleet:{run}:history:{service}:{process}"


def note(figures: Figures) -> dict[str, str | int]:
    """The figures of a heartbeat that are noted; empty where none are.

    Every note of a service has the same names, which Redis then keeps once for a hundred notes; a
    figure that is not known is an empty text. Of a number that is no integer three digits are kept.
    """
    known = numbers(figures)
    if isinstance(figures, TrainerFigures):
        known |= numbers(figures.demand)
    return {name: _short(known.get(name)) for name in NOTED.get(figures.service, ())}


def _short(value: float | None) -> str | int:
    """As Redis keeps it in few bytes: integers in two to four, other numbers as text."""
    if value is None or not math.isfinite(value):
        return ""
    return int(value) if value.is_integer() or abs(value) >= 100 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class ProcessHistory:
    """What one process said over a span, thinned out."""

    worker: str
    begins_at: float
    """Of its oldest note that is kept, whatever the span; seconds since 1970, by Redis' clock."""
    figures: Mapping[str, tuple[float | None, ...]]
    """By name, a value for each step of the span; None: it said nothing in that step, or did not
    know."""


@dataclass(frozen=True, slots=True)
class ServiceHistory:
    """What the processes of a service said over a span."""

    steps: tuple[float, ...]
    """Where each step begins, seconds since 1970."""
    processes: tuple[ProcessHistory, ...]
    left_out: int = 0
    """Processes that are not looked at: there are more than were asked for."""

    @property
    def begins_at(self) -> float | None:
        """Where history begins; None: there is none.

        Where that is in the span, Redis was wiped then, or nothing ran before.
        """
        return min((process.begins_at for process in self.processes), default=None)

    def known(self, name: str) -> list[list[float]]:
        """Of a figure, at each step the values of all processes that said it."""
        rows = [each.figures[name] for each in self.processes if name in each.figures]
        return [
            [value for row in rows if (value := row[step]) is not None]
            for step in range(len(self.steps))
        ]

    def total(self, name: str) -> list[float | None]:
        """The sum over the processes at each step; None where none said anything."""
        return [sum(values) if values else None for values in self.known(name)]

    def mean(self, name: str) -> list[float | None]:
        """The mean over the processes at each step; None where none said anything."""
        return [sum(values) / len(values) if values else None for values in self.known(name)]


_Entry = tuple[bytes, dict[bytes, bytes]]


class _Reads(Protocol):
    """Commands that are sent together."""

    def xrange(self, name: str, first: str, last: str, count: int, /) -> object: ...
    def execute(self) -> list[list[_Entry]]: ...


class _HistoryCommands(Protocol):
    """What is used of Redis."""

    def scan_iter(self, match: str, count: int) -> Iterator[bytes]: ...
    def pipeline(self, *, transaction: bool) -> _Reads: ...
    def close(self) -> None: ...


class HeartbeatHistory:
    """Reads what the heartbeats of one run have said.

    Args:
        redis_url: as ``open_redis`` takes it, of a user who may read history.
        run: name of the run.

    Raises:
        ConfigError: the URL is not one of Redis.
    """

    def __init__(self, redis_url: str, run: str) -> None:
        client, self._place = open_redis(redis_url)
        self._redis = cast("_HistoryCommands", client)
        self._run = run

    def read(
        self,
        service: str,
        *,
        until: float,
        seconds: float = KEPT_SECONDS,
        points: int = 120,
        worker: str | None = None,
        most: int = 64,
    ) -> ServiceHistory:
        """The figures over a span, of each step the first that was said.

        What is asked of Redis is bounded by ``points * most``, however much is kept.

        Args:
            service: such as ``selfplay``.
            until: the end of the span, seconds since 1970.
            seconds: its length.
            points: steps that it is divided into; none is shorter than the distance of two notes.
            worker: this process alone; None: all that have noted anything.
            most: processes that are looked at.

        Raises:
            StoreUnavailableError: Redis does not answer.
            ConfigError: this user may not read history.
        """
        points = max(1, min(points, round(seconds / NOTE_SECONDS)))
        step = seconds / points
        steps = tuple(until - seconds + number * step for number in range(points))
        with our_errors(self._place):
            workers = [worker] if worker is not None else self._workers(service)
            looked_at = workers[:most]
            reads = self._redis.pipeline(transaction=False)
            for each in looked_at:
                key = history_key(self._run, service, each)
                reads.xrange(key, "-", "+", 1)
                for begin in steps:
                    first, after = (round(1000 * at) for at in (begin, begin + step))
                    reads.xrange(key, str(first), str(after - 1), 1)
            answers = reads.execute() if looked_at else []
        stride = points + 1
        found = [
            _process(each, service, answers[place * stride : (place + 1) * stride])
            for place, each in enumerate(looked_at)
        ]
        known = tuple(each for each in found if each is not None)
        return ServiceHistory(steps, known, left_out=len(workers) - len(looked_at))

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    def _workers(self, service: str) -> list[str]:
        prefix = history_key(self._run, service, "")
        keys = set(self._redis.scan_iter(match=f"{prefix}*", count=_SCAN_COUNT))
        return sorted(key.decode(errors="replace").removeprefix(prefix) for key in keys)


def _process(
    worker: str, service: str, answers: Sequence[Sequence[_Entry]]
) -> ProcessHistory | None:
    """From its oldest note and the first of each step; None: its notes have just expired."""
    [first, *rest] = answers
    if not first:
        return None
    notes = [entries[0][1] if entries else {} for entries in rest]
    figures = {
        name: tuple(_number(each.get(name.encode())) for each in notes)
        for name in NOTED.get(service, ())
    }
    return ProcessHistory(worker, int(first[0][0].partition(b"-")[0]) / 1000, figures)


def _number(text: bytes | None) -> float | None:
    """None for what is missing, and for what another version means by it."""
    try:
        value = float(text or b"")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
