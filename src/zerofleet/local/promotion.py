"""The last word on the best model, when a run ends at its goal."""

from __future__ import annotations

from zerofleet.best import BestPointer
from zerofleet.database import Database
from zerofleet.local.stores import StoreUrls

_ACTOR = "zerofleet up"


def make_best(run: str, version: int, urls: StoreUrls) -> None:
    """Promote the model that reached the goal again, if another was promoted after it.

    Between its exam and the evaluator's end a newer candidate may have won its match: whoever
    plays the best model of the run afterwards wants the one that reached the goal. Call it when no
    evaluator runs any more.
    """
    with Database(urls.database["owner"], pool_size=1) as database:
        head = database.promotion_head(run)
        if head is None or head.version == version:
            return
        epoch = database.acquire_fence(run, "evaluator")
        database.promote(run, version, None, _ACTOR, head.seq, epoch=epoch)
        pointer = BestPointer(urls.redis, run)
        pointer.reconcile(database)
        pointer.close()
