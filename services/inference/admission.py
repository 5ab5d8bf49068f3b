"""Which searches may run together: as many as memory holds."""

from __future__ import annotations

import contextlib
from collections.abc import Generator

from zerofleet.errors import OverloadedError

_MOST_SEARCHES = 64
# A tree has 20 bytes for each edge and an eighth of room at most, so these are 0.9 GB at worst.
_MOST_EDGES = 40_000_000


class Admission:
    """Counts the searches that run and the edges that their trees may grow to.

    Args:
        most_searches: that may run together.
        most_edges: of all their trees together; one search alone may have more.
    """

    def __init__(self, most_searches: int = _MOST_SEARCHES, most_edges: int = _MOST_EDGES) -> None:
        self._most_searches = most_searches
        self._most_edges = most_edges
        self._edges = 0
        self.searches = 0

    @contextlib.contextmanager
    def admitted(self, simulations: int, num_actions: int) -> Generator[None]:
        """A search of this size runs inside; each of its simulations adds at most one node.

        Raises:
            OverloadedError: those that run leave no room for it.
        """
        edges = simulations * num_actions
        if self.searches >= self._most_searches:
            raise OverloadedError(
                f"{self.searches} searches are running, and at most {self._most_searches} may: "
                "send again later"
            )
        if self.searches and self._edges + edges > self._most_edges:
            raise OverloadedError(
                f"{simulations} simulations of {num_actions} actions each are {edges:,} edges, and "
                f"the searches that run have {self._edges:,} of at most {self._most_edges:,}: send "
                "again later, or ask for fewer simulations"
            )
        self.searches += 1
        self._edges += edges
        try:
            yield
        finally:
            self.searches -= 1
            self._edges -= edges
