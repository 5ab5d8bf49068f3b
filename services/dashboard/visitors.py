"""Who looks at the page: logins with the token of a role, and how long they last."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog

from zerofleet.errors import OverloadedError, PermissionDeniedError, UnauthenticatedError
from zerofleet.secrets.tokens import Role, Token, digest_of, find_token

_log = structlog.get_logger()

SESSION_SECONDS = 12 * 3600
_MAY_LOOK: frozenset[Role] = frozenset({"viewer", "client", "admin"})
_MAY_SEARCH: frozenset[Role] = frozenset({"client", "admin"})
_MOST_SESSIONS = 20  # of one token
_MOST_ADDRESSES = 10_000
_FAILURES = 5  # of an address in a minute
_SEARCHES_OF_ONE = 2  # at once
_MINUTE = 60.0


class Allowance:
    """Simulations of one visitor, or of all: a minute's worth at once, and as much in each minute.

    Args:
        per_minute: simulations.
        clock: seconds that only go on.
        searches: that may run at once; others wait for ``turns``.
        whose: for messages.
    """

    fastest: float | None
    """Highest rate of a search that was seen, in simulations per second; None: none was seen."""

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
        """Use so many.

        Raises:
            OverloadedError: so many are not left; it says when they are.
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
        """Those of a search that was not made, or ended early."""
        self._left = min(self._left + simulations, self.per_minute)


@dataclass(eq=False, slots=True)
class Visitor:
    """One login; where none is asked for, everybody on this machine."""

    name: str
    role: Role
    allowance: Allowance
    """Shared by all logins with the same token."""
    token: str = ""
    """The digest of the token that it logged in with."""
    until: float = float("inf")
    """When it ends, by the clock of ``Visitors``."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def may_search(self) -> bool:
        """Whether it may play and analyse."""
        return self.role in _MAY_SEARCH


class Visitors:
    """Logs visitors in, and knows them again; sessions are in memory alone.

    Args:
        tokens: that are accepted at this moment; None: no login is asked for.
        simulations: a minute of all logins with one token, or of everybody where no login is
            asked for.
        clock: seconds that only go on.
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
        # Oldest first, by the digest of the session's id: what is in memory opens nothing.
        self._sessions: OrderedDict[str, Visitor] = OrderedDict()
        # By the digest of the token. Kept while the token is accepted: a new login must not bring
        # a new minute's worth of simulations.
        self._allowances: dict[str, Allowance] = {}
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()
        self._everybody = Visitor("everybody", "admin", Allowance(simulations, clock))

    @property
    def log_in(self) -> bool:
        """Whether a login is asked for."""
        return self._tokens is not None

    def enter(self, presented: str, address: str) -> str:
        """Log a visitor in; the session's id, for the cookie.

        A token has a limited number of sessions: a new one ends its oldest.

        Args:
            presented: the token.
            address: where it comes from.

        Raises:
            OverloadedError: too many logins from there failed in the last minute.
            UnauthenticatedError: the token is unknown.
            PermissionDeniedError: its role may not look.
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
        """The visitor of a session, while it lasts and its token is accepted."""
        if self._tokens is None:
            return self._everybody
        key = digest_of(session)
        visitor = self._sessions.get(key)
        if visitor is not None and self._is_over(visitor, self._tokens()):
            self._end(key)
            return None
        return visitor

    def leave(self, session: str) -> None:
        """Log out; pages that are open are told nothing more."""
        if digest_of(session) in self._sessions:
            self._end(digest_of(session))

    async def keep_ending(self, every: float = 10.0) -> None:
        """End, for ever, the sessions that are over, with the pages that are open in them."""
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
                f"Too many logins from {address} have failed: it is possible again in {seconds} s."
            )

    def _note_failure(self, address: str) -> None:
        _log.warning("login_refused", address=address)
        self._failures.setdefault(address, deque()).append(self._clock())
        self._failures.move_to_end(address)
        while len(self._failures) > _MOST_ADDRESSES:
            self._failures.popitem(last=False)
