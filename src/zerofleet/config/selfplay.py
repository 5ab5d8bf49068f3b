"""Sections on playing games: ``[game]``, ``[search]``, ``[selfplay]``, ``[resign]``."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from zerofleet.config.section import BASIC, Section


class GameSection(Section):
    """``[game]``: the game to train."""

    name: str = Field(json_schema_extra=BASIC)
    """Name of the game: a built-in game with its rules (``go(size=9,komi=7.5)``),
    ``openspiel:chess``, or ``python:module:Class``. docs/reference/games.md lists the rules of each
    game. ``game = "..."`` at the top level means the same."""


class SearchSection(Section):
    """``[search]``: the tree search of self-play, matches, exams and clients.

    MCTS as in AlphaGo Zero (Nature 2017, Methods, "Search algorithm"). The keys for exploration are
    in ``[selfplay]``.
    """

    num_simulations: int = Field(default=32, ge=1, json_schema_extra=BASIC)
    """Simulations for each move of self-play. Client searches default to the largest of this,
    ``evaluator.num_simulations`` and ``rating.num_simulations``."""
    root: Literal["puct", "gumbel"] = Field(default="gumbel", json_schema_extra=BASIC)
    """Selection of actions at the root: ``puct``, or ``gumbel`` for Gumbel sampling with sequential
    halving (Danihelka et al., ICLR 2022). Gumbel improves the policy even with few simulations. The
    root's value is then the improved policy's value. Client searches always use PUCT, so that the
    visits show what the search prefers."""
    c_puct: float = Field(default=1.5, gt=0, json_schema_extra=BASIC)
    """Exploration constant of PUCT, ``Q + c_puct * P * sqrt(sum N) / (1 + N)``. Raise it to explore
    more."""
    fpu: Literal["zero", "reduction"] = "reduction"
    """Value of an unvisited action (first-play urgency): ``zero`` as in AlphaGo Zero, or the
    parent's value with a ``reduction``."""
    fpu_reduction: float = Field(default=0.2, ge=0)
    """Factor of the reduction. With ``fpu = "reduction"``, an unvisited action has the value
    ``parent's value - fpu_reduction * sqrt(visited prior mass)``."""
    gumbel_actions: int = Field(default=16, ge=1)
    """Number of actions that a Gumbel root considers."""
    virtual_loss: float = Field(default=1.0, ge=0)
    """Number of losses that each edge of a path counts while the prediction of its leaf is pending.
    It only matters if one tree has several leaves in flight."""
    prove_results: bool = True
    """Back up wins, draws and losses that the rules make certain. The search stops visiting moves
    that certainly lose, and ends when its result is certain. Self-play plays the rest of such a
    game along the proof (Winands et al. 2008, "Monte-Carlo Tree Search Solver")."""
    decisive_moves: bool = True
    """Look one move ahead for results that are certain; needs ``prove_results``. Below the root, a
    position whose player can win at once counts as won, without a prediction. At the root, the
    first simulation plays such a move. Positions where every move ends the game are treated in the
    same way (Teytaud & Teytaud 2010, "On the Huge Benefit of Decisive Moves in Monte-Carlo Tree
    Search Algorithms"). The key has no effect on games of Python and OpenSpiel, where trying each
    move would cost more than the network."""
    reuse_tree: bool = True
    """Keep the subtree of the chosen move for the next search."""
    cache_positions: int = Field(default=200_000, ge=0)
    """Number of positions whose predictions the cache holds; 0: no cache. A new model empties the
    cache."""
    random_symmetry: bool = True
    """Show each leaf to the network under a random symmetry of the board, in self-play and for
    clients. With a Gumbel root all leaves of one game share a symmetry, because the root compares
    actions after a visit or two. Matches and exams use no random symmetry."""


class SelfplaySection(Section):
    """``[selfplay]``: how workers play and explore. Matches and exams use none of these keys."""

    games_per_engine: int = Field(default=256, ge=1, json_schema_extra=BASIC)
    """Games that one engine plays at the same time. A request to inference has about this many
    positions."""
    engines: int = Field(default=2, ge=1)
    """Engines in one worker. One searches while another waits for predictions."""
    save_every_plies: int = Field(default=16, ge=1)
    """Plies between two saves of an unfinished game. A SIGKILL loses fewer than this many plies of
    a game; with 1 or 2, at most 2."""
    lease_seconds: float = Field(default=30.0, gt=0)
    """Seconds of silence from a worker after which another worker may adopt its saved games."""
    spool_games: ClassVar[int] = 20_000
    """Most finished games held in memory while Postgres is down. Beyond them, self-play pauses."""
    max_ahead_positions: int = Field(default=20_000, ge=0, json_schema_extra=BASIC)
    """Pause self-play while the trainer is more than this many positions behind; 0: never pause."""
    full_search_share: float = Field(default=1.0, gt=0, le=1)
    """Share of moves, drawn at random, that get the full search and become training targets
    (playout cap randomization, Wu 2019, section 3.1)."""
    fast_simulations: int | None = Field(default=None, ge=1)
    """Simulations of moves without the full search. These fast searches have no noise. Unset: a
    tenth of ``search.num_simulations``."""
    random_opening_share: float = Field(default=0.9, ge=0, le=1, json_schema_extra=BASIC)
    """Share of games that begin with random plies, so that games stay different once the player is
    sure of its moves. Random plies are not training targets."""
    random_opening_plies: int | None = Field(default=None, ge=0, json_schema_extra=BASIC)
    """Most plies of a random opening, whose length is drawn from 0 to this; 0: no random
    openings. Unset: half of the longest game, at most 24. Raise it for games that are much longer,
    such as Othello."""
    opening_actions: Literal["uniform", "policy", "mixed"] = "uniform"
    """Distribution of opening actions: ``uniform``, the network's ``policy`` as in KataGo, or
    ``mixed``. ``mixed`` draws a share for each game, and takes that share of its actions from the
    policy."""
    fork_share: float = Field(default=0.0, ge=0, le=1)
    """Share of games that repeat a recent game up to a random ply, and then play one random action
    (KataGo chooses this action by value)."""
    restart_share: float = Field(default=0.0, ge=0, le=1)
    """Share of games that begin at a position with a large regret: there the values differed most
    from the result of a recent game (Tsai et al. 2026, "Regret-Guided Search Control for Efficient
    Learning in AlphaZero"). Games with a start position of their own, as in Chess960, give no such
    positions. Restarts won matches of Othello after short trainings, but not after longer ones. In
    Connect Four, 9x9 Go and chess there was no clear gain."""
    gumbel_scale: float = Field(default=1.0, ge=0)
    """Scale of the noise at a Gumbel root."""
    dirichlet_fraction: float = Field(default=0.25, ge=0, le=1)
    """Share of Dirichlet noise in a PUCT root's priors (epsilon)."""
    dirichlet_alpha: float | None = Field(default=None, gt=0)
    """Concentration of the Dirichlet noise. Unset: ``0.03 * 361 / points of the board``."""
    temperature: float = Field(default=1.0, ge=0)
    """Temperature of the move choice for the first ``temperature_moves`` plies. Moves are drawn by
    visit counts to the power of ``1 / temperature``. A Gumbel root with noise ignores it."""
    temperature_moves: int = Field(default=30, ge=0)
    """Plies played at ``temperature``, unless it has a half-life."""
    temperature_final: float = Field(default=0.0, ge=0)
    """Temperature of later plies; 0: the most visited action."""
    temperature_halflife: float = Field(default=0.0, ge=0)
    """Half-life in plies of the decay from ``temperature`` to ``temperature_final`` (KataGo: the
    board's width). 0: no decay, but a step after ``temperature_moves``."""
    root_policy_temperature: float = Field(default=1.0, gt=0)
    """Temperature that softens the priors of a PUCT root in full searches, before the noise: priors
    to the power of ``1 / root_policy_temperature``."""
    root_policy_temperature_final: float = Field(default=1.0, gt=0)
    """Value that ``root_policy_temperature`` approaches, if it has a half-life."""
    root_policy_temperature_halflife: float = Field(default=0.0, ge=0)
    """Half-life in plies of the decay to ``root_policy_temperature_final`` (KataGo: the board's
    width); 0: no decay."""
    root_fpu_reduction: float | None = Field(default=None, ge=0)
    """``search.fpu_reduction`` at a PUCT root in full searches (KataGo: 0). Unset: the same."""
    forced_playouts: float = Field(default=0.0, ge=0)
    """Factor k of the forced visits at a PUCT root in full searches; 0: off. A visited child gets
    at least ``sqrt(k * P * sum N)`` visits; P includes the noise (Wu 2019, section 3.2: 2)."""
    min_child_visits: int = Field(default=0, ge=0)
    """Minimum visits of every child of a PUCT root in full searches; 0: off. The visits that this
    forces take at most half of the simulations."""
    prune_targets: bool = False
    """Leave forced visits (``forced_playouts``, ``min_child_visits``) out of the training target
    (Wu 2019, section 3.2)."""
    play_pruned: bool = True
    """Draw moves from pruned targets too. Off: draw them from all visits, so that games explore
    more than the network learns."""


class ResignSection(Section):
    """``[resign]``: early resignation with an automatic threshold (Nature 2017, Methods)."""

    enabled: bool = Field(default=True, json_schema_extra=BASIC)
    """Resign when the values of the root and of its best child are both below the threshold,
    v_resign."""
    play_on_share: float = Field(default=0.1, gt=0, le=1)
    """Share of games, drawn at their start, that are played to the end without resignation.
    v_resign is computed from these games."""
    false_positive_share: float = Field(default=0.05, gt=0, lt=1)
    """Highest rate of false positives: players who would have resigned a game, but did not lose it.
    v_resign is the highest threshold that stays within this rate in the games that were played to
    the end."""
    highest: float = Field(default=-0.8, ge=-1, lt=0)
    """Upper bound of v_resign. It is needed because a new model's values are more extreme than the
    values in the games from which v_resign was computed."""
    min_games: ClassVar[int] = 100
    """Games played to the end before anybody resigns. Once a model has this many, the games of
    older models no longer count."""
    window_games: ClassVar[int] = 1_000
    """Number of games from which v_resign is computed: the newest by start that were played to the
    end."""
    every_seconds: ClassVar[float] = 30.0
    """Seconds between two computations of v_resign. Workers read it at the same interval."""
