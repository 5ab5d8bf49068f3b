"""How games are played: ``[game]``, ``[search]``, ``[resign]``, ``[selfplay]``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from zerofleet.config.section import Section


class GameSection(Section):
    """``[game]``: what is played."""

    name: str
    """A game of the core with its rules (``go(size=9,komi=7.5)``), ``openspiel:chess``, or
    ``python:module:Class``; operations.md lists the rules of each. ``game = "..."`` at the top
    level says the same."""


class SearchSection(Section):
    """``[search]``: MCTS as in AlphaGo Zero (Nature 2017, Methods, "Search algorithm")."""

    num_simulations: int = Field(default=100, ge=1)
    """Simulations for each move. A client's search that does not say how many has these, those of
    matches (``[evaluator]``) or those of rating games (``[rating]``), whichever are most."""
    full_search_share: float = Field(default=1.0, gt=0, le=1)
    """Self-play: share of moves, drawn at random, that get the full search and become training
    targets (playout cap randomization, Wu 2019, section 3.1)."""
    fast_simulations: int | None = Field(default=None, ge=1)
    """Simulations of the other moves, which get no noise; unset: a tenth of ``num_simulations``."""
    simulations_start: int | None = Field(default=None, ge=1)
    """Self-play: simulations of a full search by the first model; they grow in a straight line to
    ``num_simulations``, and fast searches in proportion. A new network's search tells little, and
    few simulations bring many games. Matches and exams have all; unset: so has self-play."""
    simulations_growth_models: int = Field(default=0, ge=0)
    """Model versions after the first one, rejected ones too, over which the simulations grow."""
    c_puct: float = Field(default=1.5, gt=0)
    """Exploration constant of PUCT: ``Q + c_puct * P * sqrt(sum N) / (1 + N)``."""
    c_puct_growth: float = Field(default=0.0, ge=0)
    """``c_puct`` grows with a node's visits: plus this * ``ln(1 + (1 + sum N) / c_puct_base)``."""
    c_puct_base: float = Field(default=19_652.0, gt=0)
    """Visits at which the growth of ``c_puct`` sets in."""
    fpu: Literal["zero", "reduction"] = "reduction"
    """Value of an unvisited action: 0 as in AlphaGo Zero, or the parent's, reduced."""
    fpu_reduction: float = Field(default=0.2, ge=0)
    """With ``fpu = "reduction"``: parent's value - this * sqrt(prior mass already visited)."""
    root_fpu_reduction: float | None = Field(default=None, ge=0)
    """Self-play, full searches: ``fpu_reduction`` at the root, where noise is to be tried (KataGo
    has 0); unset: as everywhere."""
    root_policy_temperature: float = Field(default=1.0, gt=0)
    """Self-play, full searches: priors of the root to the power of 1 / this, before the noise; not
    at a Gumbel root, whose target is of the network's own."""
    root_policy_temperature_final: float = Field(default=1.0, gt=0)
    """What ``root_policy_temperature`` falls to, if it has a half-life."""
    root_policy_temperature_halflife: float = Field(default=0.0, ge=0)
    """Plies after which it is half-way there; 0: it stays (KataGo: the board's width)."""
    dirichlet_fraction: float = Field(default=0.25, ge=0, le=1)
    """Share of noise in the root's priors (epsilon)."""
    dirichlet_alpha: float | None = Field(default=None, gt=0)
    """Concentration of the noise; unset: ``0.03 * 361 / points of the board``."""
    forced_playouts: float = Field(default=0.0, ge=0)
    """Self-play, full searches: a child of the root that was visited at all gets at least
    ``sqrt(this * P * sum N)`` visits, P with noise (Wu 2019, section 3.2, has 2); 0: off."""
    min_child_visits: int = Field(default=0, ge=0)
    """Self-play, full searches: every child of the root gets at least this many visits, as far as
    half of the simulations suffice for all; 0: off."""
    prune_targets: bool = False
    """Leave visits that only forcing caused (``forced_playouts``, ``min_child_visits``) out of the
    training target (Wu 2019, 3.2)."""
    play_pruned: bool = True
    """Draw moves from pruned targets too; off: from all visits, so that games explore more than
    what is learnt from them."""
    root: Literal["puct", "gumbel"] = "puct"
    """How the root chooses: by PUCT, or by Gumbel sampling with sequential halving (Danihelka et
    al., ICLR 2022), which improves the policy even at a few simulations; the root's value, which
    ``[trainer] value_lambda`` makes targets of, is then that of the improved policy. Searches for
    clients always use PUCT, so that more visits mean a better action."""
    gumbel_actions: int = Field(default=16, ge=1)
    """Gumbel: actions of the root that are considered."""
    gumbel_scale: float = Field(default=1.0, ge=0)
    """Gumbel: scale of the noise in self-play; matches have none."""
    gumbel_c_visit: float = Field(default=50.0, ge=0)
    """Gumbel: ``sigma(q) = (c_visit + max N) * c_scale * q``, q in [0, 1]."""
    gumbel_c_scale: float = Field(default=1.0, gt=0)
    """Gumbel: see ``gumbel_c_visit``."""
    temperature: float = Field(default=1.0, ge=0)
    """Exponent ``1 / temperature`` on visit counts for the first ``temperature_moves`` plies; not
    at a Gumbel root with noise, which has drawn already."""
    temperature_moves: int = Field(default=30, ge=0)
    """Plies played at ``temperature``, where it has no half-life."""
    temperature_final: float = Field(default=0.0, ge=0)
    """Temperature afterwards; 0 takes the most visited action."""
    temperature_halflife: float = Field(default=0.0, ge=0)
    """Plies after which ``temperature`` is half-way to ``temperature_final``, in place of the step
    after ``temperature_moves`` (KataGo: the board's width); 0: the step."""
    random_opening_plies: int = Field(default=0, ge=0)
    """Self-play: a game begins with so many plies at most (a number drawn evenly from 0 to this)
    whose actions are drawn without a search; they are no training targets. Keeps a game that is
    nearly solved from being played in one way alone."""
    random_opening_share: float = Field(default=1.0, ge=0, le=1)
    """Self-play: share of games that begin so."""
    opening_actions: Literal["uniform", "policy", "mixed"] = "uniform"
    """Whether the actions of openings are drawn evenly, or by the network's policy, as KataGo's
    are; mixed: each in one of these ways, by a share of the policy that is drawn for the game."""
    fork_share: float = Field(default=0.0, ge=0, le=1)
    """Self-play: share of games that begin as one of the games that ended lately, up to a ply drawn
    evenly, and go on with one drawn action (KataGo's forks, which choose it by the value)."""
    virtual_loss: float = Field(default=1.0, ge=0)
    """Losses a path counts while its leaf is away (only where one tree has several leaves out)."""
    prove_results: bool = False
    """Wins, draws and losses that the rules make certain are backed up as such, moves that are
    certain to lose are not searched again, and a search whose result is certain ends: the rest of
    its game is played along the proof and ends as was proven (Winands et al. 2008, "Monte-Carlo
    Tree Search Solver")."""
    decisive_moves: bool = False
    """With ``prove_results``: below the root a position whose player can win at once is won without
    the network being asked, and a root's first simulation plays such a move (Teytaud & Teytaud
    2010, "On the Huge Benefit of Decisive Moves in Monte-Carlo Tree Search Algorithms"); likewise
    where every move ends the game. Games written in Python and OpenSpiel's are not looked at: a
    look at each move would cost more than the network."""
    reuse_tree: bool = True
    """Keep the chosen child's subtree as the next root, under fresh noise."""
    cache_positions: int = Field(default=200_000, ge=0)
    """Predictions kept by position, emptied when the model changes; 0 switches the cache off."""
    random_symmetry: bool = True
    """Show each leaf to the network under a random symmetry of the board; with a
    Gumbel root, which compares actions after a visit or two, all leaves that a game asks for are
    shown under the same one."""

    @model_validator(mode="after")
    def _simulations_can_grow(self) -> SearchSection:
        start, models = self.simulations_start, self.simulations_growth_models
        if (start is None) != (models == 0):
            raise ValueError(
                f"simulations_start = {start} and simulations_growth_models = {models}: give both "
                "(1 model or more), or neither"
            )
        if start is not None and start > self.num_simulations:
            raise ValueError(
                f"simulations_start = {start} is above num_simulations = {self.num_simulations}: "
                "lower the first or raise the second"
            )
        return self


class ResignSection(Section):
    """``[resign]``: early resignation with an automatic threshold (Nature 2017, Methods)."""

    enabled: bool = False
    """The player to move resigns when the root's value and its best child's are below v_resign."""
    play_on_share: float = Field(default=0.1, gt=0, le=1)
    """Share of games, drawn at their start, in which no player resigns: v_resign is computed from
    them."""
    false_positive_share: float = Field(default=0.05, gt=0, lt=1)
    """v_resign is the highest at which, among games played on, at most this share of the
    resignations would have been by a player who did not lose."""
    highest: float = Field(default=-0.8, ge=-1, lt=0)
    """v_resign is never above this: a new model's values are bolder than those of the games that
    it was computed from."""
    min_games: int = Field(default=100, ge=1)
    """No player resigns before this many games were played on; a model with so many of its own is
    judged by these alone."""
    window_games: int = Field(default=1_000, ge=1)
    """Games played on that v_resign is computed from: the last ones in the order of their start."""
    every_seconds: float = Field(default=30.0, gt=0)
    """v_resign is recomputed, and read by workers, this often."""


class SelfplaySection(Section):
    """``[selfplay]``: how a worker plays."""

    games_per_engine: int = Field(default=256, ge=1)
    """Games that one engine plays at once; about the leaves of one message."""
    engines: int = Field(default=2, ge=1)
    """Engines in flight in one worker: the tree of one works while the other waits."""
    save_every_plies: int = Field(default=16, ge=1)
    """Unfinished games are saved this often: a SIGKILL loses fewer plies of a game than this, and
    with 1 or 2 at most 2."""
    lease_seconds: float = Field(default=30.0, gt=0)
    """A saved game whose worker is silent this long may be adopted by another worker."""
    spool_games: int = Field(default=20_000, ge=1)
    """Finished games held while Postgres does not answer; then play pauses."""
    max_ahead_positions: int = Field(default=0, ge=0)
    """Pause when the trainer has this many positions unread (0: never pause)."""
