"""An evaluator's term of office: whose models it judges, on which record, in whose name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from zerofleet.config import RunConfig
from zerofleet.database import Database
from zerofleet.waiting import Waits

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Office:
    """What every part of an evaluator needs."""

    run: RunConfig
    database: Database
    waits: Waits  # told what is waited for
    worker: str  # name of this process
    epoch: int  # of the evaluator's fence

    async def ask(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Make a store's call in a thread, until the store answers."""
        return await self.waits.ask_store(call, *args, **kwargs)
