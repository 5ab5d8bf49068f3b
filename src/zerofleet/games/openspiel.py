"""Games of OpenSpiel (Lanctot et al. 2019): ``openspiel:chess``, ``openspiel:hex(board_size=5)``.

Every deterministic, sequential, zero-sum game for two players with perfect information and an
observation tensor can be played.

OpenSpiel does not say which values its tensors hold, nor whether an action is always written the
same way. A sample of random games shows it before the game is played. The sample is the same in
every process: its seed is the game's own name.
"""

from __future__ import annotations

import difflib
import importlib
import itertools
import math
import random
import re
from dataclasses import dataclass, field
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import ConfigError

_MOST_ACTIONS = 32_767  # smallint in positions.action
_MOST_NUMBERS = 1_000_000  # numbers of an observation; 19x19 Go has 1,444
# A name may come from the database, and OpenSpiel's error about a file quotes a line of it.
_READS_FILES = re.compile(
    r"\b(?:efg_game|nfg_game)\b|\b\w*(?:file|path|root|dir)\w*\s*=", re.IGNORECASE
)

_MOST_PLIES = 30_000  # positions.ply is a smallint
_MOST_STEPS = 8  # limit for a plane's thermometer code
_SAMPLE_GAMES = 20
_SAMPLE_POSITIONS = 2_000


def load_openspiel(name: str) -> OpenSpielRules:
    """Return the rules of a game of OpenSpiel, with parameters as OpenSpiel writes them.

    Raises:
        ConfigError: OpenSpiel is not installed, has no such game, or it cannot be played here; the
            message says why.
    """
    if _READS_FILES.search(name):
        raise ConfigError(f"'openspiel:{name}' reads files: choose a game without a file's name")
    pyspiel = _pyspiel()
    known = pyspiel.registered_names()
    family = name.partition("(")[0]
    if family not in known:
        nearest = difflib.get_close_matches(family.lower(), known, n=1, cutoff=0.5)
        hint = f"; did you mean 'openspiel:{nearest[0]}'?" if nearest else ""
        raise ConfigError(f"OpenSpiel has no game '{family}'{hint}")
    try:
        game = pyspiel.load_game(name)
        reasons = _why_not(game)
        if not reasons:
            return OpenSpielRules(game)
    # Impossible numbers in a game's name raise any of these, some of them in our own arithmetic.
    except (
        pyspiel.SpielError,
        ArithmeticError,
        LookupError,
        MemoryError,
        RuntimeError,
        ValueError,
    ) as error:
        raise ConfigError(f"OpenSpiel does not make '{name}': {error}") from error
    raise ConfigError(f"OpenSpiel's '{name}' cannot be played here: {'; '.join(reasons)}")


def playable_games() -> list[str]:
    """Return the names of the games that need no parameters and can be played here.

    Raises:
        ConfigError: OpenSpiel is not installed.
    """
    pyspiel = _pyspiel()
    return [
        f"openspiel:{kind.short_name}"
        for kind in pyspiel.registered_games()
        if kind.default_loadable
        and not _why_not_kind(kind)
        and not _why_not(pyspiel.load_game(kind.short_name))
    ]


def _pyspiel() -> Pyspiel:
    try:
        return cast("Pyspiel", importlib.import_module("pyspiel"))
    except ImportError as error:
        raise ConfigError(
            f"OpenSpiel is not installed ({error}): pip install 'zerofleet[openspiel]', or make "
            "setup in a checkout"
        ) from error


def _why_not(game: SpielGame) -> list[str]:
    reasons = _why_not_kind(game.get_type())
    if game.num_players() != 2:
        reasons.append(f"it is for {game.num_players()} players, not 2")
    if game.num_distinct_actions() > _MOST_ACTIONS:
        reasons.append(f"it has {game.num_distinct_actions()} actions, more than {_MOST_ACTIONS}")
    kind = game.get_type()
    if kind.provides_observation_tensor or kind.provides_information_state_tensor:
        numbers = math.prod(Tensor(game).shape)
        if numbers > _MOST_NUMBERS:
            reasons.append(f"an observation has {numbers:,} numbers, more than {_MOST_NUMBERS:,}")
    return reasons


def _why_not_kind(kind: SpielKind) -> list[str]:
    reasons: list[str] = []
    if kind.dynamics.name != "SEQUENTIAL":
        reasons.append("the players do not move one after the other")
    if kind.chance_mode.name != "DETERMINISTIC":
        reasons.append("chance takes part")
    if kind.information.name != "PERFECT_INFORMATION":
        reasons.append("a player does not see everything (imperfect information)")
    if kind.utility.name != "ZERO_SUM":
        reasons.append("it is not zero-sum")
    if not (kind.provides_observation_tensor or kind.provides_information_state_tensor):
        reasons.append("it has no observation tensor")
    return reasons


class OpenSpielRules:
    """The rules of one game of OpenSpiel.

    Player 0 moves first, whatever OpenSpiel's number of that player is. An action is written as
    OpenSpiel writes it in the position, without spaces. An action that is not legal there is
    written as OpenSpiel writes it everywhere if that is one word, otherwise as its number. Returns
    count by their sign. A game that reaches ``max_length`` is a draw.
    """

    num_symmetries = 1

    def __init__(self, game: SpielGame) -> None:
        self.game = game
        self.tensor = Tensor(game)
        sample = take_sample(game, self.tensor)
        self.code = PlaneCode(sample.values, self.tensor.shape)
        self.num_actions = game.num_distinct_actions()
        self.observation_shape = self.code.shape
        self.max_length = min(game.max_game_length(), _MOST_PLIES)
        self.first = game.new_initial_state().current_player()
        self._texts = sample.texts
        self._actions = {text: action for action, text in sample.texts.items()}
        self.any_case = sample.any_case
        self._any_case_actions = {text.casefold(): action for text, action in self._actions.items()}

    def start(self) -> OpenSpielPosition:
        """See ``Rules``."""
        return OpenSpielPosition(self, self.game.new_initial_state(), 0, 0)

    def symmetric_point(self, point: int, symmetry: int) -> int:
        """See ``Rules``; OpenSpiel does not specify a game's symmetries."""
        del symmetry
        return point

    def symmetric_action(self, action: int, symmetry: int) -> int:
        """See ``Rules``."""
        del symmetry
        return action

    def action_to_string(self, action: int) -> str:
        """See ``Rules``."""
        return self._texts.get(action, str(action))

    def string_to_action(self, text: str) -> int | None:
        """See ``Rules``; also reads the number of an action."""
        if text in self._actions:
            return self._actions[text]
        if self.any_case and text.casefold() in self._any_case_actions:
            return self._any_case_actions[text.casefold()]
        if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) < self.num_actions:
            return int(text)
        return None


class OpenSpielPosition:
    """A state of OpenSpiel with the ply and the player to move."""

    __slots__ = ("_names_here", "_ply", "_rules", "_state", "is_terminal", "to_play")

    def __init__(self, rules: OpenSpielRules, state: SpielState, ply: int, to_play: int) -> None:
        self._rules = rules
        self._state = state
        self._ply = ply
        # names of legal actions; None until they are needed
        self._names_here: dict[int, str] | None = None
        self.to_play = to_play
        self.is_terminal = ply >= rules.max_length or state.is_terminal()

    @property
    def result(self) -> int:
        """See ``Position``."""
        if not self._state.is_terminal():
            return 0
        return int(np.sign(self._state.returns()[self._rules.first]))

    def legal_actions(self) -> list[int]:
        """See ``Position``."""
        return self._state.legal_actions()

    def apply(self, action: int) -> None:
        """See ``Position``; after the end, the player who did not move last is to play."""
        self._state.apply_action(action)
        self._ply += 1
        self._names_here = None
        over = self._state.is_terminal()
        self.is_terminal = over or self._ply >= self._rules.max_length
        mover = self.to_play
        self.to_play = 1 - mover if over else int(self._state.current_player() != self._rules.first)

    def copy(self) -> OpenSpielPosition:
        """See ``Position``."""
        return OpenSpielPosition(self._rules, self._state.clone(), self._ply, self.to_play)

    def name_of(self, action: int) -> str | None:
        """Return OpenSpiel's text for a legal action, without spaces; None if it is ambiguous."""
        names = self._names()
        name = names.get(action)
        return None if name is None or list(names.values()).count(name) > 1 else name

    def action_named(self, text: str) -> int | None:
        """Return the legal action with this text."""
        names = self._names()
        matches = [action for action, name in names.items() if name == text]
        if not matches and self._rules.any_case:
            matches = [a for a, name in names.items() if name.casefold() == text.casefold()]
        return matches[0] if len(matches) == 1 else None

    def _names(self) -> dict[int, str]:
        if self._state.is_terminal():
            return {}
        if self._names_here is None:
            player = self._state.current_player()
            self._names_here = {
                action: "".join(self._state.action_to_string(player, action).split())
                for action in self._state.legal_actions()
            }
        return self._names_here

    def packed_observation(self) -> bytes:
        """See ``Position``."""
        rules = self._rules
        player = rules.first if self.to_play == 0 else 1 - rules.first
        planes = rules.tensor.read(self._state, player)
        return np.packbits(rules.code.encode(planes, self.to_play)).tobytes()

    def __str__(self) -> str:
        return str(self._state)


class Tensor:
    """Reads a game's observation tensor as planes: ``shape`` is (planes, rows, columns).

    A tensor ``[c, h, w]`` stays as it is. ``[c, n]`` becomes ``[c, s, s]`` if n is s squared, else
    ``[c, 1, n]``. ``[n]`` becomes n planes of one point. A tensor with more dimensions keeps its
    last two. For a game without an observation tensor, the information state's is read.
    """

    def __init__(self, game: SpielGame) -> None:
        self._observes = game.get_type().provides_observation_tensor
        sizes = (
            game.observation_tensor_shape()
            if self._observes
            else game.information_state_tensor_shape()
        )
        self.shape = _as_planes(sizes)

    def read(self, state: SpielState, player: int) -> NDArray[np.float32]:
        """Return the planes, ``shape``, of a position as a player (OpenSpiel's number) sees it."""
        values = (
            state.observation_tensor(player)
            if self._observes
            else state.information_state_tensor(player)
        )
        return np.array(values, np.float32).reshape(self.shape)


class PlaneCode:
    """Makes planes binary, and adds one plane: ones when the second player is to play.

    A plane that held only 0 and 1 in the sample stays one plane. Any other plane, such as a
    counter, becomes a thermometer: plane i is 1 where the value is above the i-th step. Steps lie
    between neighbours among the values seen. If there are more than 8, 8 evenly spaced ones count.

    Args:
        values: values of each plane in the sample, except 0 and 1.
        shape: shape of the tensor, (planes, rows, columns).
    """

    def __init__(self, values: list[set[float]], shape: tuple[int, int, int]) -> None:
        steps = [(plane, step) for plane, seen in enumerate(values) for step in _steps(seen)]
        self.source = np.array([plane for plane, _ in steps], np.intp)  # [planes - 1]
        self._step = np.array([step for _, step in steps], np.float32)[:, None, None]
        self.shape = (len(steps) + 1, *shape[1:])

    def encode(self, planes: NDArray[np.float32], to_play: int) -> NDArray[np.bool_]:
        """Return a position's binary planes, ``shape``."""
        coded = np.empty(self.shape, np.bool_)
        np.greater(planes[self.source], self._step, out=coded[:-1])
        coded[-1] = to_play == 1
        return coded


def _as_planes(sizes: list[int]) -> tuple[int, int, int]:
    if len(sizes) == 1:
        return sizes[0], 1, 1
    if len(sizes) == 2:
        side = math.isqrt(sizes[1])
        return (sizes[0], side, side) if side * side == sizes[1] else (sizes[0], 1, sizes[1])
    return math.prod(sizes[:-2]), sizes[-2], sizes[-1]


def _steps(seen: set[float]) -> list[float]:
    values = sorted({0.0, 1.0} | seen)
    steps = [(low + high) / 2 for low, high in itertools.pairwise(values)]
    if len(steps) <= _MOST_STEPS:
        return steps
    chosen = np.linspace(0, len(steps) - 1, _MOST_STEPS).round().astype(int)
    return [steps[index] for index in chosen]


@dataclass(slots=True)
class Sample:
    """Values and texts seen in random games."""

    values: list[set[float]]
    """Values of each plane of the tensor, other than 0 and 1."""
    texts: dict[int, str] = field(default_factory=dict[int, str])
    """Text of each action; empty if some action is not always written the same way."""
    any_case: bool = True
    """Whether names are case-insensitive, because the first game's use only one case."""


def take_sample(game: SpielGame, tensor: Tensor) -> Sample:
    """Play random games: 20 of them, or as many as 2,000 positions hold."""
    generator = random.Random(f"sample of {game}")
    sample = Sample(values=[set() for _ in range(tensor.shape[0])])
    texts: dict[int, str] | None = {}
    letters: set[str] = set()
    positions = 0
    for number in range(_SAMPLE_GAMES):
        state = game.new_initial_state()
        while not state.is_terminal() and positions < _SAMPLE_POSITIONS:
            positions += 1
            player, legal = state.current_player(), state.legal_actions()
            planes = tensor.read(state, player)
            for plane in np.flatnonzero(((planes != 0) & (planes != 1)).any(axis=(1, 2))):
                sample.values[plane].update(np.unique(planes[plane]).tolist())
            texts = _with_texts(texts, state, player, legal)
            if number == 0:
                letters.update(*(state.action_to_string(player, action) for action in legal))
            # Only this method of the generator stays the same in all versions of Python.
            state.apply_action(legal[int(generator.random() * len(legal))])
    sample.any_case = not (any(map(str.isupper, letters)) and any(map(str.islower, letters)))
    if texts is not None and _are_plain(texts):
        sample.texts = texts
    return sample


def _with_texts(
    texts: dict[int, str] | None, state: SpielState, player: int, legal: list[int]
) -> dict[int, str] | None:
    if texts is None:
        return None
    for action in legal:
        text = state.action_to_string(player, action)
        if texts.setdefault(action, text) != text:
            return None
    return texts


def _are_plain(texts: dict[int, str]) -> bool:
    """Return whether each text means one action, and differs from a number."""
    every = texts.values()
    return len(set(every)) == len(texts) and all(
        len(text.split()) == 1 and text.strip() == text and not text.isdecimal() for text in every
    )


class SpielState(Protocol):
    """A ``pyspiel.State``."""

    def is_terminal(self) -> bool:
        """Whether the game is over."""
        ...

    def current_player(self) -> int:
        """Return the player to move; negative after the end."""
        ...

    def legal_actions(self) -> list[int]:
        """Return the legal actions in ascending order."""
        ...

    def apply_action(self, action: int) -> None:
        """Play a legal action."""
        ...

    def clone(self) -> SpielState:
        """Return an independent copy."""
        ...

    def returns(self) -> list[float]:
        """Return each player's winnings so far, [players]."""
        ...

    def observation_tensor(self, player: int) -> list[float]:
        """Return a flat tensor of ``observation_tensor_shape``."""
        ...

    def information_state_tensor(self, player: int) -> list[float]:
        """Return a flat tensor of ``information_state_tensor_shape``."""
        ...

    def action_to_string(self, player: int, action: int) -> str:
        """Return the text of a legal action in this state."""
        ...


class Named(Protocol):
    """A value of an enumeration."""

    name: str


class SpielKind(Protocol):
    """A ``pyspiel.GameType``."""

    short_name: str
    default_loadable: bool
    provides_observation_tensor: bool
    provides_information_state_tensor: bool
    dynamics: Named
    chance_mode: Named
    information: Named
    utility: Named


class SpielGame(Protocol):
    """A ``pyspiel.Game``; as text it is its name with all parameters."""

    def get_type(self) -> SpielKind:
        """Return the kind of game."""
        ...

    def new_initial_state(self) -> SpielState:
        """Return the start."""
        ...

    def num_players(self) -> int:
        """Return the number of players with these parameters."""
        ...

    def num_distinct_actions(self) -> int:
        """Return the number of actions, which are numbered from 0."""
        ...

    def max_game_length(self) -> int:
        """Return the length of the longest game in plies."""
        ...

    def observation_tensor_shape(self) -> list[int]:
        """Return the shape, of any number of dimensions."""
        ...

    def information_state_tensor_shape(self) -> list[int]:
        """Return the shape, of any number of dimensions."""
        ...


class Pyspiel(Protocol):
    """The parts of the Python module that are used here; it has no types of its own."""

    SpielError: type[Exception]

    def registered_names(self) -> list[str]:
        """Return the names of all games."""
        ...

    def registered_games(self) -> list[SpielKind]:
        """Return the kinds of all games."""
        ...

    def load_game(self, name: str) -> SpielGame:
        """Make a game; raises ``SpielError``."""
        ...
