"""All that zerofleet asks of Postgres."""

from zerofleet.database.games import Games
from zerofleet.database.matches import Matches
from zerofleet.database.metrics import Metrics
from zerofleet.database.models import Models
from zerofleet.database.promotions import Promotions
from zerofleet.database.ratings import Ratings
from zerofleet.database.resignation import Resignations
from zerofleet.database.retention import Retentions
from zerofleet.database.runs import Runs
from zerofleet.database.summary import Summaries
from zerofleet.database.variants import Variants
from zerofleet.database.window import Windows


class Database(
    Runs,
    Games,
    Windows,
    Resignations,
    Models,
    Retentions,
    Variants,
    Matches,
    Promotions,
    Ratings,
    Metrics,
    Summaries,
):
    """The record of every run, over a few connections; a context manager.

    Its methods block: call them from a thread where an event loop runs. All of them raise
    ``StoreUnavailableError`` when Postgres does not answer, within about half a minute even when
    it is frozen, and all of them may then be called again with the same arguments.
    """
