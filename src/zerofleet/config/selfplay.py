"""How games are played: ``[game]``, ``[search]``, ``[selfplay]``, ``[resign]``."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from zerofleet.config.section import BASIC, Section


class GameSection(Section):
    """``[game]``: what is played."""

    name: str = Field(json_schema_extra=BASIC)
    """A game of the core with its rules (``go(size=9,komi=7.5)``), ``openspiel:chess``, or
    ``python:module:Class``. operations.md lists the rules of each. ``game = "..."`` at the top
    level says the same."""


class SearchSection(Section):
    """``[search]``: the tree search of self-play, matches, exams and clients.

    MCTS as in AlphaGo Zero (Nature 2017, Methods, "Search algorithm"). What only explores is in
    ``[selfplay]``.
    """

    num_simulations: int = Field(default=32, ge=1, json_schema_extra=BASIC)
    """Simulations for each move of self-play. Client searches default to the largest of this,
    ``evaluator.num_simulations`` and ``rating.num_simulations``."""
    root: Literal["puct", "gumbel"] = Field(default="gumbel", json_schema_extra=BASIC)
    """How the root chooses: ``puct``, or ``gumbel`` for Gumbel sampling with sequential halving
    (Danihelka et al., ICLR 2022). Gumbel improves the policy even at a few simulations. The root's
    value is then that of the improved policy. Client searches always use PUCT, so that more visits
    mean a better action."""
    c_puct: float = Field(default=1.5, gt=0, json_schema_extra=BASIC)
    """Exploration constant of PUCT: ``Q + c_puct * P * sqrt(sum N) / (1 + N)``."""
    fpu: Literal["zero", "reduction"] = "reduction"
    """Value of an unvisited action: 0 as in AlphaGo Zero, or the parent's value, reduced."""
    fpu_reduction: float = Field(default=0.2, ge=0)
    """With ``fpu = "reduction"``: parent's value - this * sqrt(prior mass already visited)."""
    gumbel_actions: int = Field(default=16, ge=1)
    """Actions that a Gumbel root considers."""
    virtual_loss: float = Field(default=1.0, ge=0)
    """Losses that a path counts while its leaf is being predicted. Only matters where one tree has
    several leaves in flight."""
    prove_results: bool = True
    """Back up wins, draws and losses that the rules make certain. Moves that certainly lose are not
    searched again, and a search whose result is certain ends. Self-play plays the rest of such a
    game along the proof (Winands et al. 2008, "Monte-Carlo Tree Search Solver")."""
    decisive_moves: bool = True
    """With ``prove_results``: below the root, a position whose player can win at once is won
    without asking the network, and a root's first simulation plays such a move. The same holds
    where every move ends the game. Games written in Python and OpenSpiel's are left out: trying
    each move would cost more than the network (Teytaud & Teytaud 2010, "On the Huge Benefit of
    Decisive Moves in Monte-Carlo Tree Search Algorithms")."""
    reuse_tree: bool = True
    """Keep the chosen child's subtree as the next root."""
    cache_positions: int = Field(default=200_000, ge=0)
    """Predictions cached by position. The cache is emptied when the model changes; 0 switches it
    off."""
    random_symmetry: bool = True
    """Show each leaf to the network under a random symmetry of the board, in self-play and for
    clients. With a Gumbel root, all leaves that a game asks for are shown under the same one,
    because it compares actions after a visit or two. Matches and exams use no random symmetry."""


class SelfplaySection(Section):
    """``[selfplay]``: how workers play and explore. Matches and exams use none of this."""

    games_per_engine: int = Field(default=256, ge=1, json_schema_extra=BASIC)
    """Games that one engine plays at once, about the leaves of one message."""
    engines: int = Field(default=2, ge=1)
    """Engines in one worker: one searches while the other waits for predictions."""
    save_every_plies: int = Field(default=16, ge=1)
    """Plies between two saves of an unfinished game: the most that a SIGKILL loses, and with 1 or 2
    at most 2."""
    lease_seconds: float = Field(default=30.0, gt=0)
    """Seconds of silence after which another worker may adopt a worker's saved games."""
    spool_games: ClassVar[int] = 20_000
    """Finished games held in memory while Postgres is down. Beyond them, play pauses."""
    max_ahead_positions: int = Field(default=20_000, ge=0, json_schema_extra=BASIC)
    """Pause play while the trainer has this many unread positions; 0: never pause."""
    full_search_share: float = Field(default=1.0, gt=0, le=1)
    """Share of moves, drawn at random, that get the full search and become training targets
    (playout cap randomization, Wu 2019, section 3.1)."""
    fast_simulations: int | None = Field(default=None, ge=1)
    """Simulations of the other moves, which get no noise. Unset: a tenth of
    ``search.num_simulations``."""
    random_opening_share: float = Field(default=0.9, ge=0, le=1, json_schema_extra=BASIC)
    """Share of games that begin with random plies, which are no training targets. They keep games
    different once the player is sure of its moves."""
    random_opening_plies: int | None = Field(default=None, ge=0, json_schema_extra=BASIC)
    """Most plies of a random opening. Each such game draws a number from 0 to this; 0: no random
    openings. Unset: half of the longest game, at most 24. Raise it in games that are much longer,
    such as Othello."""
    opening_actions: Literal["uniform", "policy", "mixed"] = "uniform"
    """How opening actions are drawn: evenly, by the network's policy as in KataGo, or mixed. Mixed
    draws a share for each game, and takes that share of its actions from the policy."""
    fork_share: float = Field(default=0.0, ge=0, le=1)
    """Share of games that begin as a recent game up to a random ply, and go on with one random
    action (KataGo's forks choose it by value)."""
    gumbel_scale: float = Field(default=1.0, ge=0)
    """Scale of the noise at a Gumbel root."""
    dirichlet_fraction: float = Field(default=0.25, ge=0, le=1)
    """Share of Dirichlet noise in a PUCT root's priors (epsilon)."""
    dirichlet_alpha: float | None = Field(default=None, gt=0)
    """Concentration of the Dirichlet noise. Unset: ``0.03 * 361 / points of the board``."""
    temperature: float = Field(default=1.0, ge=0)
    """Temperature of the move choice for the first ``temperature_moves`` plies: exponent
    ``1 / temperature`` on visit counts. A Gumbel root with noise ignores it."""
    temperature_moves: int = Field(default=30, ge=0)
    """Plies played at ``temperature``, unless it has a half-life."""
    temperature_final: float = Field(default=0.0, ge=0)
    """Temperature afterwards; 0 takes the most visited action."""
    temperature_halflife: float = Field(default=0.0, ge=0)
    """Plies in which ``temperature`` comes half-way to ``temperature_final``, instead of the step
    after ``temperature_moves`` (KataGo: the board's width); 0: the step."""
    root_policy_temperature: float = Field(default=1.0, gt=0)
    """Softens the priors of a PUCT root in full searches, before the noise: priors to the power of
    1 / this."""
    root_policy_temperature_final: float = Field(default=1.0, gt=0)
    """Value that ``root_policy_temperature`` approaches, if it has a half-life."""
    root_policy_temperature_halflife: float = Field(default=0.0, ge=0)
    """Plies in which it comes half-way there; 0: it stays (KataGo: the board's width)."""
    root_fpu_reduction: float | None = Field(default=None, ge=0)
    """``search.fpu_reduction`` at a PUCT root in full searches (KataGo: 0). Unset: the same."""
    forced_playouts: float = Field(default=0.0, ge=0)
    """Forced visits at a PUCT root in full searches: a visited child gets at least
    ``sqrt(this * P * sum N)`` visits, P with noise (Wu 2019, section 3.2: 2); 0: off."""
    min_child_visits: int = Field(default=0, ge=0)
    """Least visits of every child of a PUCT root in full searches, as far as half of the
    simulations suffice; 0: off."""
    prune_targets: bool = False
    """Leave forced visits (``forced_playouts``, ``min_child_visits``) out of the training target
    (Wu 2019, section 3.2)."""
    play_pruned: bool = True
    """Draw moves from pruned targets too. Off: from all visits, so that games explore more than
    the network learns."""


class ResignSection(Section):
    """``[resign]``: early resignation with an automatic threshold (Nature 2017, Methods)."""

    enabled: bool = Field(default=True, json_schema_extra=BASIC)
    """Resign when the root's value and its best child's are both below the threshold, v_resign."""
    play_on_share: float = Field(default=0.1, gt=0, le=1)
    """Share of games, drawn at their start, in which no player resigns. v_resign is computed from
    them."""
    false_positive_share: float = Field(default=0.05, gt=0, lt=1)
    """Most false positives: v_resign is the highest value at which, among games played on, at most
    this share of the resigning players did not lose."""
    highest: float = Field(default=-0.8, ge=-1, lt=0)
    """Upper bound of v_resign. A new model's values are bolder than those of the games that
    v_resign was computed from."""
    min_games: ClassVar[int] = 100
    """Games played on before anybody resigns. A model with this many of its own is judged by these
    alone."""
    window_games: ClassVar[int] = 1_000
    """Games played on that v_resign is computed from, the last ones in the order of their start."""
    every_seconds: ClassVar[float] = 30.0
    """Seconds between two computations of v_resign; workers read it as often."""
