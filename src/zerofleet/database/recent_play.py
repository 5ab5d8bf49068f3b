"""Whether self-play still explores: how many of its newest games differ, how sure its policy is."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.database.connection import ConnectionPool

NEWEST_GAMES = 1000
"""So many are looked at; with fewer nothing is said."""
LEAST_DISTINCT = 0.75
"""Different ones among the newest games; in a run of Connect Four that stalled it was 73%, then 49%
(bench/NOTES.md, "Games that are all the same")."""
ENOUGH_DISTINCT = 0.85
"""So many end it: a share that wavers about LEAST_DISTINCT is no news each time."""
_SHORT_GAME = 16  # plies: a game as short as tic-tac-toe has few lines, and good play few of these


@dataclass(frozen=True, slots=True)
class RecentPlay:
    """Of the last 1,000 games of self-play, and of the trainer's newest measurement."""

    games: int = 0
    distinct_game_share: float | None = None
    """Other moves than the rest; None: there is no game."""
    drawn_game_share: float | None = None
    """None: there is no game."""
    policy_entropy: float | None = None
    """Of the network's policy, nats; None: not measured yet."""
    target_entropy: float | None = None
    """Of the search's policy, likewise."""
    first_policy_entropy: float | None = None
    """What policy_entropy was when it was first measured."""

    def narrows(self, max_length: int, *, was_narrow: bool) -> str | None:
        """Why self-play is too narrow, and what to do; None while it is not.

        Args:
            max_length: of a game, in plies.
            was_narrow: whether it was before; then it takes more to be wide again.
        """
        if max_length <= _SHORT_GAME:
            return None
        share = self.distinct_game_share
        least = ENOUGH_DISTINCT if was_narrow else LEAST_DISTINCT
        if self.games < NEWEST_GAMES or share is None or share >= least:
            return None
        return (
            f"{share:.1%} of the last {self.games:,} games differ, less than {least:.0%}: raise "
            "random_opening_plies and random_opening_share, fork_share, and temperature, "
            "root_policy_temperature or dirichlet_fraction (at a Gumbel root gumbel_scale) "
            "of [search]"
        )


class RecentPlays(ConnectionPool):
    """A look at the newest games of a run."""

    def recent_play(self, run: str) -> RecentPlay:
        """Of the view ``recent_play``, whose cost does not grow with the run."""
        rows = self._rows(
            "SELECT games, distinct_game_share, drawn_game_share, policy_entropy, target_entropy, "
            "first_policy_entropy FROM recent_play WHERE run = :run",
            run=run,
        )
        return RecentPlay(*rows[0]) if rows else RecentPlay()
