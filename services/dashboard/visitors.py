"""Logins with the token of a role, and the searches and simulations that a visitor may use.

All pages search through ``VisitorPlayer``.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Unpack

import structlog

from zerofleet.client import (
    AsyncPlayer,
    PlayerDescription,
    Position,
    SearchOptions,
    SearchTable,
)
from zerofleet.errors import (
    OverloadedError,
    PermissionDeniedError,
    UnauthenticatedError,
    ZerofleetError,
)
from zerofleet.rpc.codec import BEST
from zerofleet.secrets.tokens import Role, Token, digest_of, find_token

_log = structlog.get_logger()

SESSION_SECONDS = 12 * 3600
_MAY_LOOK: frozenset[Role] = frozenset({"viewer", "client", "admin"})
_MAY_SEARCH: frozenset[Role] = frozenset({"client", "admin"})
_MOST_SESSIONS = 20  # sessions of one token
_MOST_ADDRESSES = 10_000
_FAILURES = 5  # failed logins of an address in a minute
_SEARCHES_OF_ONE = 2  # searches of one visitor at once
_MINUTE = 60.0

_WAIT_SECONDS = 10.0
_SIGN_SECONDS = 0.3  # between two tables of a search


class Allowance:
    """Quota of simulations for one visitor or for all: one minute's worth, refilled steadily.

    Args:
        per_minute: simulations a minute.
        clock: seconds that never go back.
        searches: most searches at once; others wait for ``turns``.
        whose: owner of the quota, for messages.
    """

    fastest: float | None
    """Highest rate of a search so far, in simulations per second; None: there was none."""

    def __init__(
        self,
        per_minute: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        searches: int = _SEARCHES_OF_ONE,
        whose: str = "a visitor has",
    ) -> None:
        self.fastest = None
        self.per_minute = per_minute
        self.turns = asyncio.Semaphore(searches)
        self._whose = whose
        self.now = clock
        self._left = float(per_minute)
        self._at = clock()

    def take(self, simulations: int) -> None:
        """Use this many simulations.

        Raises:
            OverloadedError: not enough are left; the message says when they are.
        """
        now = self.now()
        gained = (now - self._at) * self.per_minute / _MINUTE
        self._left, self._at = min(self._left + gained, self.per_minute), now
        if simulations > self.per_minute:
            raise OverloadedError(
                f"{simulations:,} simulations are more than {self._whose} in a minute: ask for "
                f"{self.per_minute:,} or fewer"
            )
        if simulations > self._left:
            seconds = (simulations - self._left) * _MINUTE / self.per_minute
            raise OverloadedError(
                f"of the {self.per_minute:,} simulations a minute that {self._whose}, "
                f"{int(self._left):,} are left: {simulations:,} are possible again in "
                f"{int(seconds) + 1} s"
            )
        self._left -= simulations

    def give_back(self, simulations: int) -> None:
        """Return the simulations of a search that was not made, or ended early."""
        self._left = min(self._left + simulations, self.per_minute)


@dataclass(eq=False, slots=True)
class Visitor:
    """One login; if no login is required, everybody on this machine."""

    name: str
    role: Role
    allowance: Allowance
    """Quota shared by all logins with the same token."""
    token: str = ""
    """Digest of the token of the login."""
    until: float = float("inf")
    """End of the login, by the clock of ``Visitors``."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def may_search(self) -> bool:
        """Whether it may play and analyse."""
        return self.role in _MAY_SEARCH


class Visitors:
    """Logs visitors in, and recognises them again; sessions are in memory only.

    Args:
        tokens: returns the currently accepted tokens; None: no login is required.
        simulations: simulations a minute of all logins with one token, or of everybody if no login
            is required.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        tokens: Callable[[], Sequence[Token]] | None,
        simulations: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens = tokens
        self._simulations = simulations
        self._clock = clock
        # Oldest first, by the digest of the session's ID, so that memory holds no usable ID.
        self._sessions: OrderedDict[str, Visitor] = OrderedDict()
        # By the digest of the token. Kept while the token is accepted: a new login must not bring a
        # new minute's worth of simulations.
        self._allowances: dict[str, Allowance] = {}
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._everybody = Visitor("everybody", "admin", Allowance(simulations, clock))

    @property
    def log_in(self) -> bool:
        """Whether a login is required."""
        return self._tokens is not None

    def enter(self, presented: str, address: str) -> str:
        """Log a visitor in, and return the session's ID for the cookie.

        A token has a limited number of sessions: a new one ends its oldest.

        Args:
            presented: the token.
            address: address of the visitor.

        Raises:
            OverloadedError: too many logins from there failed in the last minute.
            UnauthenticatedError: the token is unknown.
            PermissionDeniedError: its role may not see the page.
        """
        self._check_failures(address)
        token = find_token(self._tokens() if self._tokens is not None else (), presented)
        if token is None:
            self._note_failure(address)
            raise UnauthenticatedError("This token is not known here.")
        if token.role not in _MAY_LOOK:
            self._note_failure(address)
            raise PermissionDeniedError(
                f"The token '{token.name}' has the role {token.role}: a visitor needs viewer, or "
                "client to play and analyse."
            )
        session = secrets.token_urlsafe(32)
        same = [key for key, each in self._sessions.items() if each.token == token.sha256]
        for oldest in same[: max(len(same) + 1 - _MOST_SESSIONS, 0)]:
            self._end(oldest)
        allowance = self._allowances.setdefault(
            token.sha256, Allowance(self._simulations, self._clock)
        )
        self._sessions[digest_of(session)] = Visitor(
            token.name,
            token.role,
            allowance,
            token.sha256,
            self._clock() + SESSION_SECONDS,
        )
        _log.info("visitor_in", name=token.name, role=token.role, address=address)
        return session

    def find(self, session: str) -> Visitor | None:
        """Return the visitor of a session, while it lasts and its token is accepted."""
        if self._tokens is None:
            return self._everybody
        key = digest_of(session)
        visitor = self._sessions.get(key)
        if visitor is not None and self._is_over(visitor, self._tokens()):
            self._end(key)
            return None
        return visitor

    def leave(self, session: str) -> None:
        """Log out; open pages get no further updates."""
        if digest_of(session) in self._sessions:
            self._end(digest_of(session))

    async def keep_ending(self, every: float = 10.0) -> None:
        """End expired sessions, forever, with the pages that are open in them."""
        while True:
            await asyncio.sleep(every)
            tokens = self._tokens() if self._tokens is not None else ()
            for key in [k for k, each in self._sessions.items() if self._is_over(each, tokens)]:
                self._end(key)
            known = {token.sha256 for token in tokens}
            for key in [k for k in self._allowances if k not in known]:
                del self._allowances[key]

    def _is_over(self, visitor: Visitor, tokens: Sequence[Token]) -> bool:
        known = any(t.sha256 == visitor.token and t.role == visitor.role for t in tokens)
        return not known or self._clock() >= visitor.until

    def _end(self, key: str) -> None:
        self._sessions.pop(key).ended.set()

    def _check_failures(self, address: str) -> None:
        times = self._failures.get(address, deque[float]())
        while times and times[0] <= self._clock() - _MINUTE:
            times.popleft()
        if len(times) >= _FAILURES:
            seconds = int(times[0] + _MINUTE - self._clock()) + 1
            raise OverloadedError(
                f"Too many logins from {address} have failed: try again in {seconds} s."
            )

    def _note_failure(self, address: str) -> None:
        _log.warning("login_refused", address=address)
        self._failures.setdefault(address, deque()).append(self._clock())
        self._failures.move_to_end(address)
        while len(self._failures) > _MOST_ADDRESSES:
            self._failures.popitem(last=False)


class _Turn:
    """One search, and the number of its simulations so far.

    Args:
        simulations: the requested number.
        everybody: keeps the rate of the fastest search.
    """

    def __init__(self, simulations: int, everybody: Allowance) -> None:
        self._simulations = simulations
        self._everybody = everybody
        self._counted = 0
        self._counted_at: float | None = None
        self._has_table = False

    def begin(self) -> None:
        """Record that inference has the search from now on."""
        self._counted_at = self._everybody.now()

    def count(self, simulations: int) -> None:
        """Record the number of simulations of a table."""
        now, before = self._everybody.now(), self._counted_at
        # The time to the first table may include loading the model. Two tables that were read
        # together, because this process was busy, reveal nothing about the rate.
        if self._has_table and before is not None and now - before > _SIGN_SECONDS / 2:
            rate = (simulations - self._counted) / (now - before)
            self._everybody.fastest = max(rate, self._everybody.fastest or 0.0)
        self._counted, self._counted_at, self._has_table = simulations, now, True

    @property
    def counted(self) -> int:
        """Simulations of the last table."""
        return self._counted

    def at_most(self) -> int:
        """Return the most simulations that the search can have made, at the highest rate so far."""
        if self._counted_at is None:
            return 0
        if self._everybody.fastest is None:
            return self._simulations
        since = (self._everybody.now() - self._counted_at) * self._everybody.fastest
        return min(self._counted + math.ceil(since), self._simulations)


@dataclass(frozen=True, slots=True)
class VisitorPlayer:
    """An ``AsyncPlayer`` with the limits of one visitor.

    Each search uses one row per batch of inference, so visitors never take more rows than
    ``everybody`` allows searches, and self-play has the others. However fast batches follow each
    other, visitors' simulations in a minute never exceed ``everybody``'s. A search that its visitor
    ends early is charged for the time that it ran, at the highest rate seen so far: inference may
    have made that many simulations.

    Its methods raise the errors of ``AsyncPlayer``'s and two more: ``PermissionDeniedError`` if the
    visitor may only view, and ``OverloadedError`` if its simulations are used up or others are
    searching. The latter says when to try again.
    """

    player: AsyncPlayer
    visitor: Visitor
    everybody: Allowance
    """Quota of all visitors together."""
    num_simulations: int
    """Default number of simulations."""

    async def describe(self) -> PlayerDescription:
        """See ``AsyncPlayer``; the limit is at most the visitor's."""
        described = await self.player.describe()
        allowed = min(self.visitor.allowance.per_minute, self.everybody.per_minute)
        most = min(described.max_simulations, allowed)
        return replace(
            described,
            num_simulations=min(described.num_simulations, most),
            max_simulations=most,
            max_analysis_simulations=most,
        )

    async def search(
        self,
        position: Position = (),
        *,
        start: str = "",
        version: int | str = BEST,
        **options: Unpack[SearchOptions],
    ) -> SearchTable:
        """See ``AsyncPlayer``; a search may take as long as it makes progress."""
        analysis = self.analyze(
            position, start=start, every_seconds=_SIGN_SECONDS, version=version, **options
        )
        last: SearchTable | None = None
        async with contextlib.aclosing(analysis) as tables:
            async for table in tables:
                last = table
        assert last is not None  # a stream without a table ends with an error
        return last

    async def analyze(
        self,
        position: Position = (),
        *,
        start: str = "",
        every_seconds: float = 0.0,
        version: int | str = BEST,
        **options: Unpack[SearchOptions],
    ) -> AsyncGenerator[SearchTable]:
        """See ``AsyncPlayer``; simulations saved by an early end are returned to the quota."""
        allowed = self._allowed(options.get("simulations"))
        options = options | SearchOptions(simulations=allowed)
        async with self._turn(allowed) as turn:
            analysis = self.player.analyze(
                position, start=start, every_seconds=every_seconds, version=version, **options
            )
            async with contextlib.aclosing(analysis) as tables:
                async for table in tables:
                    turn.count(table.simulations)
                    yield table

    def _allowed(self, simulations: int | None) -> int:
        if not self.visitor.may_search:
            raise PermissionDeniedError(
                f"the role {self.visitor.role} may only view: log in with the token of a client "
                "to play and analyse"
            )
        return self.num_simulations if simulations is None else simulations

    @contextlib.asynccontextmanager
    async def _turn(self, simulations: int) -> AsyncGenerator[_Turn]:
        """Wait for the visitor's and everybody's turn, for a search of this many simulations.

        If inference fails, the visitor is charged for the simulations of the last table. If the
        visitor ends the search early, the charge includes all that inference can have made since.
        """
        simulations = max(simulations, 1)
        self.visitor.allowance.take(simulations)
        try:
            self.everybody.take(simulations)
        except OverloadedError:
            self.visitor.allowance.give_back(simulations)
            raise
        turn = _Turn(simulations, self.everybody)
        try:
            async with contextlib.AsyncExitStack() as held:
                await self._wait(held)
                turn.begin()
                yield turn
        except BaseException as error:
            made = turn.counted if isinstance(error, ZerofleetError) else turn.at_most()
            left = max(simulations - made, 0)
            self.visitor.allowance.give_back(left)
            self.everybody.give_back(left)
            raise

    async def _wait(self, held: contextlib.AsyncExitStack) -> None:
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await held.enter_async_context(self.visitor.allowance.turns)
                await held.enter_async_context(self.everybody.turns)
        except TimeoutError as error:
            raise OverloadedError(
                f"the limit of searches at once is reached: try again in {_WAIT_SECONDS:g} s"
            ) from error
