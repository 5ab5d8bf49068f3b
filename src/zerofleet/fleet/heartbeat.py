"""Heartbeats in Redis: which processes work, their progress, what they wait for.

A heartbeat carries progress, because a process can be alive and stuck. It expires unless it is
renewed, and a process that shuts down removes its own. Readers compute its age by Redis' clock, so
they know within seconds that a process does not respond. Leases and fences in Postgres decide who
may write; heartbeats never do.

A missing heartbeat means nothing while Redis refuses writes. Therefore each call records the state
of Redis in ``Heartbeats.state``, and each reader also attempts a write that changes nothing.

Every ten seconds a heartbeat also appends some of its figures to a history: ``HeartbeatHistory``
reads the last 24 hours, at most 8,640 entries of a process. A history is one stream in Redis for
each process, and expires a day after its last entry. No decision depends on it, and Redis may be
wiped.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Any, Protocol, cast, get_args

import structlog
from pydantic import TypeAdapter, ValidationError

from zerofleet import __version__
from zerofleet.fleet.figures import KINDS, Figures, TrainerFigures, numbers
from zerofleet.redis_connection import UP, RedisCaller, RedisState, open_redis, our_errors
from zerofleet.waiting import WorkStatus

BEAT_TTL_SECONDS = 10.0
NOTE_SECONDS = 10.0
KEPT_SECONDS = 24 * 3600
KEPT_NOTES = int(KEPT_SECONDS / NOTE_SECONDS)
NOTED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "selfplay": (
            *("games_per_hour", "positions_per_second", "simulations_per_second"),
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
"""Figures in the history, by service; their names are those in the heartbeat and in the metrics."""
_EARLIER_NAMES = MappingProxyType(
    {
        "positions_per_second": "positions_per_s",
        "simulations_per_second": "simulations_per_s",
    }
)
"""Names of figures in heartbeats and histories of processes before 1.1, which are read too."""
MOST_BEATS = 2_000
"""Most heartbeats of one service that a reader reads. Whoever may send one can send many."""
_MOST_KEYS = 50_000  # keys that a reader looks through for heartbeats
_MOST_BYTES = 64 << 10  # size of a heartbeat; the trainer's has some 3 kB
_MOST_WAITING = 500  # characters of what a process waits for
_MOST_VERSION = 50  # characters of its version
_LATE_SHARE = 0.5  # share of its TTL; a busy machine delays heartbeats by several seconds
_SCAN_COUNT = 1000
_logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last heartbeat of one process."""

    worker: str
    progress: int
    """Grows with the work done; if it does not change and nothing is waited for, the process is
    stuck.
    """
    waiting_for: str
    """Empty while it works."""
    figures: Figures
    version: str = __version__
    """Version of zerofleet that it runs; empty if that version did not send it."""
    status: WorkStatus | None = None
    """None if the version does not send it: then blocked while it waits for anything."""
    age_seconds: float = field(default=0.0, compare=False)
    """Seconds since it was sent, by Redis' clock; 0 if this reader may not read it."""
    ttl_seconds: float = field(default=BEAT_TTL_SECONDS, compare=False)

    @property
    def is_late(self) -> bool:
        """Whether the process does not respond: its heartbeat is older than half of its TTL."""
        return self.age_seconds >= _LATE_SHARE * self.ttl_seconds

    @property
    def work_status(self) -> WorkStatus:
        """The status; for earlier versions it is derived from ``waiting_for``."""
        return self.status or ("blocked" if self.waiting_for else "running")

    @property
    def service(self) -> str:
        """Name of the service, such as ``selfplay``, from its figures."""
        return self.figures.service


@dataclass(frozen=True, slots=True)
class _Content:
    """A heartbeat as it is stored in Redis."""

    service: str
    worker: str
    progress: int
    waiting_for: str
    figures: dict[str, Any]
    version: str = ""
    status: str | None = None
    ttl: float = BEAT_TTL_SECONDS


_CONTENT = TypeAdapter(_Content)
_FIGURES = {service: TypeAdapter[Figures](kind) for service, kind in KINDS.items()}


class _Writes(Protocol):
    """Commands that are sent together."""

    def mget(self, keys: Sequence[bytes | str]) -> object: ...
    def pttl(self, name: bytes | str) -> object: ...
    def set(self, name: str, value: str, *, px: int) -> object: ...
    def xadd(
        self, name: str, fields: Mapping[str, str | int], *, maxlen: int, approximate: bool
    ) -> object: ...
    def expire(self, name: str, time: int) -> object: ...
    def lpushx(self, name: str, *values: str) -> object: ...
    def execute(self, raise_on_error: bool) -> list[object]: ...


class _HeartbeatCommands(Protocol):
    """The Redis commands that heartbeats need."""

    def pipeline(self, *, transaction: bool) -> _Writes: ...
    def scan_iter(self, match: str, count: int) -> Iterator[bytes]: ...
    def close(self) -> None: ...


class Heartbeats(RedisCaller):
    """The heartbeats of one run.

    Args:
        redis_url: see ``open_redis``.
        clock: seconds that never go back.

    Raises:
        ConfigError: the URL is not a Redis URL.
    """

    def __init__(
        self, redis_url: str, run: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        client, place = open_redis(redis_url)
        super().__init__(place)
        self._redis = cast("_HeartbeatCommands", client)
        self._run = run
        self._prefix = f"zerofleet:{run}:heartbeat:"
        self._clock = clock
        self._noted_at: dict[str, float] = {}
        self._is_noting_refused = False
        # LPUSHX changes nothing if there is no list, and no user may make one at this key. Redis
        # refuses it whenever it refuses other writes.
        self._probe_key = f"zerofleet:{run}:probe"

    def beat(self, beat: Heartbeat, ttl: float = BEAT_TTL_SECONDS) -> None:
        """Send a heartbeat; every ten seconds also append its figures to the history.

        If Redis accepts the heartbeat but refuses the history, as with the ACL rules of an earlier
        version, the log says so once.

        Args:
            ttl: seconds until the process counts as gone.

        Raises:
            StoreUnavailableError: Redis does not answer.
            ConfigError: this user may not send heartbeats of that service.
        """
        content = _Content(
            service=beat.service,
            worker=beat.worker,
            progress=beat.progress,
            waiting_for=beat.waiting_for,
            figures=asdict(beat.figures),
            version=beat.version,
            status=beat.status,
            ttl=ttl,
        )
        key = self._key(beat.service, beat.worker)
        now = self._clock()
        is_due = now - self._noted_at.get(key, -math.inf) >= NOTE_SECONDS
        fields = note(beat.figures) if is_due else {}
        with self._asking():
            writes = self._redis.pipeline(transaction=False)
            writes.set(key, json.dumps(asdict(content)), px=round(ttl * 1000))
            if fields:
                notes = history_key(self._run, beat.service, _process(beat.service, beat.worker))
                writes.xadd(notes, fields, maxlen=KEPT_NOTES, approximate=True)
                writes.expire(notes, KEPT_SECONDS)
            beaten, *noted = writes.execute(raise_on_error=False)
            if isinstance(beaten, Exception):
                raise beaten
        self.state = UP
        if is_due:
            self._noted_at[key] = now
            self._tell_of(next((each for each in noted if isinstance(each, Exception)), None))

    def remove(self, service: str, worker: str) -> None:
        """Remove the heartbeat of a process that has ended.

        Raises:
            StoreUnavailableError: Redis does not answer.
            ConfigError: this user may not write heartbeats of that service.
        """
        with self._asking():
            writes = self._redis.pipeline(transaction=False)
            # Users that may send heartbeats may use SET, but not DEL.
            writes.set(self._key(service, worker), "", px=1)
            [removed] = writes.execute(raise_on_error=False)
            if isinstance(removed, Exception):
                raise removed

    def _tell_of(self, refusal: Exception | None) -> None:
        if refusal is not None and not self._is_noting_refused:
            _logger.warning("no_history", redis=self._place, error=str(refusal))
        self._is_noting_refused = refusal is not None

    def read(self, service: str = "") -> list[Heartbeat]:
        """Return the heartbeats of all live processes, by service and worker.

        Of each service at most 2,000 are read; ``state`` says if there are more.

        Args:
            service: the only service to read, such as ``inference``; empty: all services.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        with self._asking():
            match = f"{self._prefix}{service}:*" if service else f"{self._prefix}*"
            scan = self._redis.scan_iter(match=match, count=_SCAN_COUNT)
            found = sorted(set(islice(scan, _MOST_KEYS)))
            keys, left_out = self._bounded(found)
            contents, lives = self._read(keys)
        if self.state.status == "up":
            self.state = RedisState("up", _left_out_words(left_out))
        beats = [
            (key, _understood(content, left))
            for key, content, left in zip(keys, contents, lives, strict=True)
        ]
        return [beat for key, beat in beats if beat is not None and self._is_of(beat, key)]

    def read_trainer(self) -> TrainerFigures | None:
        """Return the trainer's figures at a cost independent of the fleet's size; None: it is down.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        with self._asking():
            [content], _ = self._read([self._key(TrainerFigures.service, "")], ages=False)
        beat = _understood(content)
        return beat.figures if beat and isinstance(beat.figures, TrainerFigures) else None

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    def _read(
        self, keys: Sequence[bytes | str], *, ages: bool = True
    ) -> tuple[list[bytes | None], list[object]]:
        """Read keys and their remaining times, and record whether Redis accepts writes."""
        commands = self._redis.pipeline(transaction=False)
        commands.lpushx(self._probe_key, "")
        if keys:
            commands.mget(keys)
        for key in keys if ages else ():
            commands.pttl(key)
        probed, *answers = commands.execute(raise_on_error=False)
        no_keys: list[object] = [[]]
        contents, *lives = answers or no_keys
        if isinstance(contents, Exception):
            raise contents
        self._note(RedisState.of_write(probed, self._place))
        return cast("list[bytes | None]", contents), lives

    def _note(self, probed: RedisState | None) -> None:
        """Record the state of Redis after a read; None: this user may not attempt the write."""
        if probed is not None:
            self.state = probed
        elif self.state.status == "down":  # it has answered; a heartbeat may know more
            self.state = UP

    def _bounded(self, found: Sequence[bytes]) -> tuple[list[bytes], int]:
        """Return the keys to read, and how many more there are than a service may have."""
        keys = {service.encode(): list[bytes]() for service in KINDS}
        left_out = 0
        for key in found:
            of_service = keys.get(key[len(self._prefix) :].partition(b":")[0])
            if of_service is not None and len(of_service) < MOST_BEATS:
                of_service.append(key)
            elif of_service is not None:
                left_out += 1
        return sorted(key for of_service in keys.values() for key in of_service), left_out

    def _is_of(self, beat: Heartbeat, key: bytes) -> bool:
        """Return whether it is under its own key: ACLs limit what users may write by key only."""
        return self._key(beat.service, beat.worker).encode() == key

    def _key(self, service: str, worker: str) -> str:
        return f"{self._prefix}{service}:{_process(service, worker)}"


def _left_out_words(left_out: int) -> str:
    if not left_out:
        return ""
    return f"{left_out:,} heartbeats are not read: a service has more than {MOST_BEATS:,}"


def _process(service: str, worker: str) -> str:
    """Return the name in the key; a run has one trainer, whose key does not need its name."""
    return "only" if service == TrainerFigures.service else worker


def _understood(content: bytes | None, left: object = None) -> Heartbeat | None:
    """Return the heartbeat in a key; None if there is none or it cannot be read.

    A bad value of one process must not stop the readers of all, nor one bad figure hide the others.
    A figure that cannot be read, or contains a number that is not finite, is left out.

    Args:
        content: value of the key.
        left: answer to PTTL: milliseconds until the key expires. An error leaves the age at 0,
            because ACL files from before 1.1 do not allow the command.
    """
    if content is None or len(content) > _MOST_BYTES:
        return None
    try:
        beat = _CONTENT.validate_json(content)
        kind = _FIGURES.get(beat.service)
        if kind is None:
            return None
        known = {name: value for name, value in beat.figures.items() if _is_finite(value)}
        known = {name: known[old] for name, old in _EARLIER_NAMES.items() if old in known} | known
    except ValidationError:
        return None
    try:
        figures = kind.validate_python(known)
    except ValidationError as error:
        bad = {each["loc"][0] for each in error.errors()}
        figures = kind.validate_python({name: known[name] for name in known.keys() - bad})
    status = beat.status if beat.status in get_args(WorkStatus) else None
    age = max(0.0, beat.ttl - left / 1000) if isinstance(left, int) and left >= 0 else 0.0
    return Heartbeat(
        beat.worker,
        beat.progress,
        beat.waiting_for[:_MOST_WAITING],
        figures,
        beat.version[:_MOST_VERSION],
        cast("WorkStatus | None", status),
        age,
        beat.ttl,
    )


def _is_finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, cast("dict[str, object]", value).values()))
    if isinstance(value, list):
        return all(map(_is_finite, cast("list[object]", value)))
    return not isinstance(value, float) or math.isfinite(value)


def history_key(run: str, service: str, process: str) -> str:
    """Return the key of a process' history."""
    return f"zerofleet:{run}:history:{service}:{process}"


def note(figures: Figures) -> dict[str, str | int]:
    """Return the figures of a heartbeat that go into the history; empty if there are none.

    All entries of a service have the same names, which Redis then stores once for a hundred
    entries. An unknown figure is an empty text. Numbers that are not integers keep three digits.
    """
    known = numbers(figures)
    if isinstance(figures, TrainerFigures):
        known |= numbers(figures.demand)
    return {name: _short(known.get(name)) for name in NOTED.get(figures.service, ())}


def _short(value: float | None) -> str | int:
    """Return a value that Redis stores in few bytes: integers in 2 to 4, other numbers as text."""
    if value is None or not math.isfinite(value):
        return ""
    return int(value) if value.is_integer() or abs(value) >= 100 else f"{value:.3g}"


@dataclass(frozen=True, slots=True)
class ProcessHistory:
    """Figures of one process over a span, thinned out."""

    worker: str
    begins_at: float
    """Time of its oldest entry, whatever the span; seconds since 1970, by Redis' clock."""
    figures: Mapping[str, tuple[float | None, ...]]
    """By name, a value for each step of the span; None: there is no entry in that step, or no
    value.
    """


@dataclass(frozen=True, slots=True)
class ServiceHistory:
    """Figures of the processes of a service over a span."""

    steps: tuple[float, ...]
    """Start of each step, seconds since 1970."""
    processes: tuple[ProcessHistory, ...]
    left_out: int = 0
    """Number of processes left out, because there are more than the limit."""

    @property
    def begins_at(self) -> float | None:
        """Where history begins; None: there is none.

        If that is within the span, Redis was wiped then, or nothing ran before.
        """
        return min((process.begins_at for process in self.processes), default=None)

    def known(self, name: str) -> list[list[float]]:
        """Return the values of a figure at each step, from all processes that have one."""
        rows = [each.figures[name] for each in self.processes if name in each.figures]
        return [
            [value for row in rows if (value := row[step]) is not None]
            for step in range(len(self.steps))
        ]

    def total(self, name: str) -> list[float | None]:
        """Return the sum over the processes at each step; None where no process has a value."""
        return [sum(values) if values else None for values in self.known(name)]

    def mean(self, name: str) -> list[float | None]:
        """Return the mean over the processes at each step; None where no process has a value."""
        return [sum(values) / len(values) if values else None for values in self.known(name)]


_Entry = tuple[bytes, dict[bytes, bytes]]


class _Reads(Protocol):
    """Commands that are sent together."""

    def xrange(self, name: str, first: str, last: str, count: int, /) -> object: ...
    def execute(self) -> list[list[_Entry]]: ...


class _HistoryCommands(Protocol):
    """The Redis commands that the history needs."""

    def scan_iter(self, match: str, count: int) -> Iterator[bytes]: ...
    def pipeline(self, *, transaction: bool) -> _Reads: ...
    def close(self) -> None: ...


class HeartbeatHistory:
    """Reads the history of the heartbeats of one run.

    Args:
        redis_url: see ``open_redis``; for a user who may read history.

    Raises:
        ConfigError: the URL is not a Redis URL.
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
        """Return the figures over a span: the first entry of each step.

        The amount read from Redis is bounded by ``points * most``, whatever the length of the
        history.

        Args:
            service: such as ``selfplay``.
            until: end of the span, seconds since 1970.
            seconds: length of the span.
            points: number of steps of the span; none is shorter than the distance of two entries.
            worker: only this process; None: all that have a history.
            most: limit of processes to read.

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
            _history_of(each, service, answers[place * stride : (place + 1) * stride])
            for place, each in enumerate(looked_at)
        ]
        known = tuple(each for each in found if each is not None)
        return ServiceHistory(steps, known, left_out=len(workers) - len(looked_at))

    def close(self) -> None:
        """Close the connections."""
        self._redis.close()

    def _workers(self, service: str) -> list[str]:
        prefix = history_key(self._run, service, "")
        scan = self._redis.scan_iter(match=f"{prefix}*", count=_SCAN_COUNT)
        keys = set(islice(scan, _MOST_KEYS))
        return sorted(key.decode(errors="replace").removeprefix(prefix) for key in keys)


def _history_of(
    worker: str, service: str, answers: Sequence[Sequence[_Entry]]
) -> ProcessHistory | None:
    """Return a history: its oldest entry and the first of each step; None: it has just expired."""
    [first, *rest] = answers
    if not first:
        return None
    notes = [entries[0][1] if entries else {} for entries in rest]
    figures = {
        name: tuple(_number(_noted(each, name)) for each in notes)
        for name in NOTED.get(service, ())
    }
    return ProcessHistory(worker, int(first[0][0].partition(b"-")[0]) / 1000, figures)


def _noted(entry: Mapping[bytes, bytes], name: str) -> bytes | None:
    return entry.get(name.encode(), entry.get(_EARLIER_NAMES.get(name, name).encode()))


def _number(text: bytes | None) -> float | None:
    """Return a number; None if it is missing, or means something else in another version."""
    try:
        value = float(text or b"")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
