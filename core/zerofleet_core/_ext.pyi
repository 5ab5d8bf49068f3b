"""The search core of zerofleet: rules, MCTS and replay, without I/O."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy
from numpy.typing import NDArray


class GameSpec:
    """Sizes of a game."""

    @property
    def name(self) -> str: ...

    @property
    def num_actions(self) -> int: ...

    @property
    def observation_shape(self) -> tuple[int, int, int]:
        """(planes, rows, columns)"""

    @property
    def observation_bytes(self) -> int:
        """Bytes of a packed observation: ceil(planes * rows * columns / 8)."""

    @property
    def max_length(self) -> int:
        """Plies of the longest game."""

    @property
    def num_symmetries(self) -> int:
        """Symmetries of the board, the identity (0) included."""

    @property
    def board_points(self) -> int:
        """rows * columns"""

    def __repr__(self) -> str: ...

def game_names() -> list[str]:
    """
    Names of all families of the core: 'go' stands for go(size=9,komi=7.5) as well.
    """

def game_spec(name: str) -> GameSpec:
    """
    The sizes of a game.

    Raises:
        ValueError: no game has this name.
    """

class State:
    """A position; the rules of a game."""

    def __init__(self, game: str, actions: Sequence[int] = []) -> None:
        """
        The position after `actions` from the start.

        Raises:
            ValueError: unknown game, or an illegal action (named with its ply).
        """

    @property
    def game(self) -> str: ...

    @property
    def ply(self) -> int:
        """Number of actions played."""

    @property
    def to_play(self) -> int:
        """0: the first player moves, 1: the second."""

    @property
    def is_terminal(self) -> bool: ...

    @property
    def result(self) -> int:
        """+1 the first player won, -1 the second, 0 a draw or not over."""

    @property
    def hash(self) -> int:
        """64 bits; equal positions have equal hashes."""

    def legal_actions(self) -> list[int]:
        """In ascending order; empty when terminal."""

    def apply(self, action: int) -> None:
        """
        Play an action.

        Raises:
            ValueError: it is illegal here.
        """

    def copy(self) -> State: ...

    def observation(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C')]:
        """
        Bit-packed planes, [observation_bytes] uint8, as numpy.packbits packs them.
        """

    def action_to_string(self, action: int) -> str: ...

    def string_to_action(self, text: str) -> int:
        """
        Raises:
            ValueError: the text names no action of this game.
        """

    def __str__(self) -> str: ...

def transform_observation(game: str, observation: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], symmetry: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C')]:
    """Apply a symmetry to a packed observation, [observation_bytes] uint8."""

def transform_policy(game: str, policy: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], symmetry: int) -> Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')]:
    """
    Apply a symmetry to a policy, [num_actions] float32: what stood at action a stands where a lands.
    """

def invert_symmetry(game: str, symmetry: int) -> int:
    """The symmetry that undoes this one."""

class SearchConfig:
    """The knobs of the search, named as in a run file's [search] section."""

    def __init__(self, *, num_simulations: int = 100, full_search_share: float = 1.0, fast_simulations: int | None = None, c_puct: float = 1.5, c_puct_growth: float = 0.0, c_puct_base: float = 19652.0, fpu: str = 'reduction', fpu_reduction: float = 0.2, root_policy_temperature: float = 1.0, dirichlet_fraction: float = 0.25, dirichlet_alpha: float | None = None, forced_playouts: float = 0.0, min_child_visits: int = 0, prune_targets: bool = False, root: str = 'puct', gumbel_actions: int = 16, gumbel_scale: float = 1.0, gumbel_c_visit: float = 50.0, gumbel_c_scale: float = 1.0, temperature: float = 1.0, temperature_moves: int = 30, temperature_final: float = 0.0, random_opening_plies: int = 0, virtual_loss: float = 1.0, reuse_tree: bool = True, cache_positions: int = 200000, random_symmetry: bool = True) -> None:
        """
        Raises:
            ValueError: a setting makes no sense; the message names it.
        """

    @property
    def num_simulations(self) -> int: ...

    @property
    def full_search_share(self) -> float: ...

    @property
    def fast_simulations(self) -> int | None: ...

    @property
    def c_puct(self) -> float: ...

    @property
    def c_puct_growth(self) -> float: ...

    @property
    def c_puct_base(self) -> float: ...

    @property
    def fpu(self) -> str: ...

    @property
    def fpu_reduction(self) -> float: ...

    @property
    def root_policy_temperature(self) -> float: ...

    @property
    def dirichlet_fraction(self) -> float: ...

    @property
    def dirichlet_alpha(self) -> float | None: ...

    @property
    def forced_playouts(self) -> float: ...

    @property
    def min_child_visits(self) -> int: ...

    @property
    def prune_targets(self) -> bool: ...

    @property
    def root(self) -> str: ...

    @property
    def gumbel_actions(self) -> int: ...

    @property
    def gumbel_scale(self) -> float: ...

    @property
    def gumbel_c_visit(self) -> float: ...

    @property
    def gumbel_c_scale(self) -> float: ...

    @property
    def temperature(self) -> float: ...

    @property
    def temperature_moves(self) -> int: ...

    @property
    def temperature_final(self) -> float: ...

    @property
    def random_opening_plies(self) -> int: ...

    @property
    def virtual_loss(self) -> float: ...

    @property
    def reuse_tree(self) -> bool: ...

    @property
    def cache_positions(self) -> int: ...

    @property
    def random_symmetry(self) -> bool: ...

class GameColumns:
    """
    One game as columns: what was played and searched, and how the game ended.

    The search table of ply i is [offsets[i], offsets[i + 1]) of the columns of legal
    actions. Values are for the player to move at that ply. Plies that were given and not
    searched (a match's opening) have 0 simulations and list every legal action alike.
    """

    def __init__(self, *, result: int | None = None, reason: str = 'rules', resign_threshold: float | None = None, plays_on: bool = False, next_full_search: bool | None = None, game_id: int = 0, **columns: NDArray[Any]) -> None:
        """
        Each column of `game_columns()` and `offsets`, by name.

        Raises:
            ValueError: the columns do not fit together.
            TypeError: a column is missing, unknown, or no array of its dtype.
        """

    @property
    def action(self) -> Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', writable=False)]:
        """[plies] what was played"""

    @property
    def to_play(self) -> Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', writable=False)]:
        """
        [plies] who moved: 0 the first player, 1 the second; turns may be uneven
        """

    @property
    def model_version(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', writable=False)]:
        """[plies] the latest model when the action was chosen"""

    @property
    def root_value(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', writable=False)]:
        """[plies] after search"""

    @property
    def network_value(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', writable=False)]:
        """[plies] before search"""

    @property
    def best_child_value(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', writable=False)]:
        """[plies] of the child that is best without a temperature"""

    @property
    def simulations(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', writable=False)]:
        """[plies] visits of the root, kept ones included"""

    @property
    def full_search(self) -> Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', writable=False)]:
        """[plies] may the ply become a training target"""

    @property
    def offsets(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', writable=False)]:
        """[plies + 1]"""

    @property
    def legal_actions(self) -> Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', writable=False)]:
        """[offsets[-1]] ascending; after a fast search only those visited"""

    @property
    def visit_counts(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', writable=False)]:
        """[offsets[-1]] of the search"""

    @property
    def priors(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', writable=False)]:
        """[offsets[-1]] the network's, without noise"""

    @property
    def policy_weights(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', writable=False)]:
        """[offsets[-1]] the training target, up to scale"""

    @property
    def game_id(self) -> int:
        """Number of the game in its engine, from 0."""

    @property
    def plies(self) -> int: ...

    @property
    def result(self) -> int | None:
        """+1 first player won, -1 second, 0 draw; None: unfinished"""

    @property
    def reason(self) -> str:
        """'rules', or 'resign': the player to move gave up."""

    @property
    def resign_threshold(self) -> float | None:
        """v_resign when the game began; None: no player could resign."""

    @property
    def next_full_search(self) -> bool | None:
        """
        Of an unfinished game: whether the ply to come was drawn for a full search.
        """

    @property
    def plays_on(self) -> bool:
        """No player resigns, so that v_resign can be checked."""

    def __repr__(self) -> str: ...

def game_columns() -> list[tuple[str, str, str, str]]:
    """
    The list of a game's columns, in the order in which a digest takes them.

    Returns:
        For each its name, its dtype, whether it has an entry for each 'ply' or for
        each 'legal action' of a ply, and what it says.
    """

class EngineStatistics:
    """Counts since the engine began; those of trees are of now."""

    @property
    def simulations(self) -> int:
        """Run; those kept from the move before count once."""

    @property
    def positions_evaluated(self) -> int:
        """Rows that the network answered."""

    @property
    def cache_hits(self) -> int: ...

    @property
    def plies(self) -> int:
        """Moves chosen by search."""

    @property
    def full_searches(self) -> int:
        """Among the moves of self-play."""

    @property
    def games_finished(self) -> int: ...

    @property
    def games_resigned(self) -> int: ...

    @property
    def nodes(self) -> int:
        """Nodes of all trees."""

    @property
    def edges(self) -> int:
        """Edges of all trees: legal actions of their nodes."""

    @property
    def node_bytes(self) -> int:
        """Memory of all trees' nodes, used or not."""

    @property
    def edge_bytes(self) -> int:
        """Memory of all trees' edges, used or not."""

    @property
    def tree_bytes(self) -> int:
        """Memory of all trees."""

class SelfPlay:
    """
    Many games against oneself, one leaf of each in a batch.

    A move is played when the root's visits, those kept from the move before
    included, reach num_simulations, after at least one new simulation.
    Threads may share an engine; its calls run one at a time.
    """

    def __init__(self, game: str, games: int, config: SearchConfig, seed: int) -> None: ...

    def select(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C')]:
        """
        Run every game to its next leaf that needs the network. The GIL is released.

        Returns:
            [rows, observation_bytes], one row per game in play, over the engine's memory:
            valid until the next select. Called again before `backup`, the same rows come
            again. There are no rows only when no game is in play and none may start. A game
            that the cache answers num_simulations times in a row asks anew, so that a new
            model is noticed even when every position is known.
        """

    def backup(self, policy_logits: NDArray[numpy.floating[Any]], value: NDArray[numpy.float32], model_version: int) -> None:
        """
        Answer the rows of the last select. The GIL is released.

        Args:
            policy_logits: [rows, num_actions], float16 or float32, illegal actions included.
            value: [rows] float32, in [-1, 1], for the player to move.
            model_version: of the model that gave every row; a new one empties the cache.

        Raises:
            ValueError: wrong shape or dtype, or numbers that are not finite; nothing changed.
        """

    def take_finished(self) -> list[GameColumns]:
        """The games that ended since the last call."""

    def unfinished(self) -> list[GameColumns]:
        """
        Copies of all games with at least one ply that go on, adopted ones that wait included.
        """

    def adopt(self, game: GameColumns) -> int:
        """
        Queue an unfinished game: the next free slot continues it.

        Returns:
            Its game_id in this engine.

        Raises:
            ValueError: it does not replay, or it is finished.
        """

    def set_accepting(self, accept: bool) -> None:
        """False: slots that become free start no games, adopted ones neither."""

    def set_resignation(self, threshold: float | None, play_on_share: float) -> None:
        """
        Set v_resign for games that begin from now on; None: no player resigns.

        The player to move resigns when the root's value and its most visited child's are
        below the threshold. In a random share of games no player does (`plays_on`).

        Raises:
            ValueError: a threshold outside [-1, 1], a share outside [0, 1].
        """

    @property
    def statistics(self) -> EngineStatistics: ...

class Match:
    """
    Games between side 0 (the candidate) and side 1 (the best).

    Opening k gives game 2k, where side 0 moves first, and game 2k + 1, where
    side 1 does. There is no noise; moves follow the configured temperatures
    (0: the most visited).

    Args:
        config: of the search of side 0, and of side 1 unless `other` is given.
        other: of the search of side 1.
    """

    def __init__(self, game: str, openings: Sequence[Sequence[int]], config: SearchConfig, seed: int, *, other: SearchConfig | None = None) -> None:
        """
        Raises:
            ValueError: unknown game, or an opening with an illegal action.
        """

    def select(self, side: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C')]:
        """
        Run the games in which this side moves to their next leaf. The GIL is released.

        Returns:
            [rows, observation_bytes] over the match's memory, valid until this side's next
            select; no rows while the side has nothing to ask.
        """

    def backup(self, side: int, policy_logits: NDArray[numpy.floating[Any]], value: NDArray[numpy.float32], model_version: int) -> None:
        """
        Answer the rows of the last select. The GIL is released.

        Args:
            policy_logits: [rows, num_actions], float16 or float32, illegal actions included.
            value: [rows] float32, in [-1, 1], for the player to move.
            model_version: of the model that gave every row; a new one empties the cache.

        Raises:
            ValueError: wrong shape or dtype, or numbers that are not finite; nothing changed.
        """

    def take_finished(self) -> list[GameColumns]:
        """The games that ended since the last call; game_id is 2k or 2k + 1."""

    @property
    def done(self) -> bool: ...

    @property
    def statistics(self) -> EngineStatistics: ...

class SearchResult:
    """
    What a search knows of a position. Values are for the player to move there.

    Before the first prediction, and for a terminal position, there are no actions.
    """

    @property
    def actions(self) -> Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', writable=False)]:
        """All legal ones."""

    @property
    def visit_counts(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', writable=False)]: ...

    @property
    def priors(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', writable=False)]:
        """The network's, without noise."""

    @property
    def q_values(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', writable=False)]:
        """Mean values; NaN where never visited."""

    @property
    def principal_variations(self) -> list[list[int]]:
        """For each action the line of most visits; it starts with the action."""

    @property
    def root_value(self) -> float:
        """After the search; exact for a terminal position."""

    @property
    def network_value(self) -> float:
        """Before the search."""

    @property
    def simulations(self) -> int:
        """The sum of visit_counts."""

    @property
    def best_action(self) -> int:
        """Most visits, ties by prior; -1 while there are no actions."""

class Search:
    """
    The search of many independent positions.

    More than one leaf of a position may be out at once, kept apart by
    virtual loss, which costs strength at equal visits.
    """

    def __init__(self, game: str, positions: Sequence[Sequence[int]], config: SearchConfig, seed: int, *, leaves_per_position: int = 1, noise: bool = False) -> None:
        """
        Args:
            positions: each a list of actions from the start.

        Raises:
            ValueError: unknown game, or a position with an illegal action.
        """

    def select(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C')]:
        """
        Run every position to its next leaves. The GIL is released.

        Returns:
            [rows, observation_bytes] over the search's memory, valid until the next select;
            no rows when all is done.
        """

    def backup(self, policy_logits: NDArray[numpy.floating[Any]], value: NDArray[numpy.float32], model_version: int) -> None:
        """
        Answer the rows of the last select. The GIL is released.

        Args:
            policy_logits: [rows, num_actions], float16 or float32, illegal actions included.
            value: [rows] float32, in [-1, 1], for the player to move.
            model_version: of the model that gave every row; a new one empties the cache.

        Raises:
            ValueError: wrong shape or dtype, or numbers that are not finite; nothing changed.
        """

    @property
    def done(self) -> bool: ...

    def results(self) -> list[SearchResult]:
        """
        One result per position, at any time; leaves that are out do not count.
        """

    @property
    def statistics(self) -> EngineStatistics: ...

class ReplayBuffer:
    """
    The newest games, from which training positions are drawn.

    Keeps moves and policy weights; positions are rebuilt by playing. Safe to use from several threads.
    """

    def __init__(self, game: str, max_positions: int, max_games: int) -> None:
        """
        An empty buffer. Over either limit the oldest games leave; the newest stays.

        Raises:
            ValueError: unknown game, or a limit below 1.
        """

    def add(self, action: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu', writable=False)], result: int, full_search: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], legal_actions: Annotated[NDArray[numpy.int16], dict(shape=(None,), order='C', device='cpu', writable=False)], policy_weights: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], *, resigned: bool = False) -> int:
        """
        Store a finished game and return its number of training positions.

        Args:
            action: [plies] int16.
            result: +1 the first player won, -1 the second did, 0 a draw.
            full_search: [plies] bool; these plies become training positions.
            offsets: [plies + 1] int32; ply i has [offsets[i], offsets[i + 1]) of the rest.
            legal_actions: [offsets[-1]] int16, all of them in ascending order; some of them
                only, or none, at plies without a full search.
            policy_weights: [offsets[-1]] int32, the policy target up to scale.
            resigned: the player to move after the last action gave up.

        Raises:
            ValueError: the game does not replay under the rules; names ply and reason.
            TypeError: a column of another dtype.
        """

    def set_max_positions(self, max_positions: int) -> None:
        """
        Bound the positions kept; oldest games leave at once when it is passed.

        Raises:
            ValueError: below 1.
        """

    @property
    def positions(self) -> int:
        """Training positions now in the buffer."""

    @property
    def games(self) -> int:
        """Games now in the buffer."""

    @property
    def total_positions(self) -> int:
        """Training positions ever added."""

    @property
    def total_games(self) -> int:
        """Games ever added that had a training position."""

    def sample_with_plies(self, batch_size: int, seed: int, *, symmetry: bool = True) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C')], Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C')], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C')], Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C')]]:
        """
        Draw as `sample` does, and say where each row comes from.

        Returns:
            What `sample` returns, then ply [batch] int32, length of its game in plies [batch]
            int32, and number of its game [batch] int64, counted from the first ever added.
        """

    def sample(self, batch_size: int, seed: int, *, symmetry: bool = True) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C')], Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C')], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C')]]:
        """
        Draw positions uniformly, with replacement; equal content and seed, equal batch.

        Returns:
            observations [batch, observation_bytes] uint8, policy_target [batch, num_actions]
            float32 (normalised weights), value_target [batch] float32 (the result for
            the player to move). A random symmetry moves observation and policy alike.

        Raises:
            ValueError: the buffer is empty, or batch_size is below 1.
        """

def connect_four_outcome(actions: Sequence[int]) -> int:
    """
    The outcome of perfect play after `actions`, for the player to move: +1, 0 or -1.

    Milliseconds from ply 12 on, a tenth of a second at ply 8, seconds before ply 4.

    Raises:
        ValueError: an illegal action, or the game is over.
    """

def connect_four_action_outcomes(actions: Sequence[int]) -> list[int | None]:
    """
    The outcome of perfect play after each column, for the player who moves now: +1, 0, -1, or
    None where the column is full.

    Raises:
        ValueError: an illegal action, or the game is over.
    """

def set_outside_games(find: Callable) -> None:
    """
    Set who knows the games that the core does not: a function from a name to rules, or None.
    """
