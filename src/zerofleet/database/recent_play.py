"""Whether self-play still explores: how many of its newest games differ, how sure its prior is."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.database.connection import ConnectionPool

NEWEST_GAMES = 1000
"""So many are looked at; with fewer nothing is said."""
LEAST_DISTINCT = 0.75
"""Different ones among the newest games; in a run of Connect Four that stalled it was 73%, then 49%
(bench/NOTES.md, "Games that are all the same")."""
LEAST_ENTROPY = 0.25
"""Of the prior's entropy, as a share of what it was when training began."""
_SHORT_GAME = 16  # plies: a game as short as tic-tac-toe has few lines, and good play few of these


@dataclass(frozen=True, slots=True)
class RecentPlay:
    """Of the last 1,000 games of self-play, and of the trainer's newest measurement."""

    games: int = 0
    distinct_share: float | None = None
    """Other moves than the rest; None: there is no game."""
    draw_share: float | None = None
    """None: there is no game."""
    prior_entropy: float | None = None
    """Of the network's policy, nats; None: not measured yet."""
    target_entropy: float | None = None
    """Of the search's policy, likewise."""
    first_prior_entropy: float | None = None
    """What prior_entropy was when it was first measured."""

    def narrows(self, max_length: int) -> str | None:
        """Why self-play is too narrow, and what to do; None while it is not.

        Args:
            max_length: of a game, in plies.
        """
        if max_length <= _SHORT_GAME:
            return None
        found: list[str] = []
        share, prior, first = self.distinct_share, self.prior_entropy, self.first_prior_entropy
        if self.games >= NEWEST_GAMES and share is not None and share < LEAST_DISTINCT:
            found.append(
                f"{share:.1%} of the last {self.games:,} games differ, less than "
                f"{LEAST_DISTINCT:.0%}"
            )
        if prior is not None and first is not None and prior < LEAST_ENTROPY * first:
            found.append(
                f"the prior's entropy is {prior:.2f} nats, less than {LEAST_ENTROPY:.0%} of the "
                f"{first:.2f} at first"
            )
        if not found:
            return None
        return (
            f"{' and '.join(found)}: raise random_opening_plies and random_opening_share, "
            "fork_share, temperature, root_policy_temperature or dirichlet_fraction of [search]"
        )


class RecentPlays(ConnectionPool):
    """A look at the newest games of a run."""

    def recent_play(self, run: str) -> RecentPlay:
        """Of the view ``recent_play``, whose cost does not grow with the run."""
        rows = self._rows(
            "SELECT games, distinct_share, draw_share, prior_entropy, target_entropy, "
            "first_prior_entropy FROM recent_play WHERE run = :run",
            run=run,
        )
        return RecentPlay(*rows[0]) if rows else RecentPlay()
