"""Checks a game's contract: ``check_conformance`` plays it, searches it and trains on it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import zerofleet_core
from numpy.typing import NDArray
from zerofleet_core import GameSpec, ReplayBuffer, SearchConfig, SelfPlay

from zerofleet.errors import ConfigError
from zerofleet.games import State, spec
from zerofleet.games.game_specs import outside_rules
from zerofleet.games.python_game import ClassRules, failure_in, raise_failure_in

_ILLEGAL_TRIED = 5  # illegal actions tried per position
_SEARCH_BATCHES = 500
_SAMPLED = 64
_TELLING_GAMES = 10  # fewer random games may have one winner by chance


@dataclass(frozen=True, slots=True)
class Conformance:
    """Result of the check of a game."""

    game: str
    lengths: tuple[int, ...]
    """Plies of each random game."""
    results: Mapping[int, int]
    """Numbers of games that ended +1 (the first player won), -1 and 0."""
    remarks: tuple[str, ...] = ()
    """Facts that the contract allows, but that may prevent learning the game."""

    def __str__(self) -> str:
        first, second, drawn = (self.results.get(result, 0) for result in (1, -1, 0))
        games = "1 random game" if len(self.lengths) == 1 else f"{len(self.lengths)} random games"
        shortest, longest = min(self.lengths), max(self.lengths)
        plies = f"{longest}" if shortest == longest else f"{shortest} to {longest}"
        return (
            f"{self.game} keeps the contract: {games} of {plies} plies, "
            f"{first} won by the first player, {second} by the second, {drawn} drawn"
            + "".join(f"\nbut {remark}" for remark in self.remarks)
        )


def check_conformance(name: str, games: int = 20, seed: int = 1) -> Conformance:
    """Play a game at random, search it and train on it, and check all that the services rely on.

    Args:
        name: game name, as in a run file.
        games: random games played to their end.
        seed: the same seed plays the same games.

    Raises:
        ConfigError: there is no such game, or its class fails or returns a wrong value; the message
            names the method.
        AssertionError: the game breaks the contract; the message says how, and after which actions.
    """
    try:
        return _check(name, games, seed)
    except RuntimeError as error:
        raise_failure_in(error)
        raise


def _check(name: str, games: int, seed: int) -> Conformance:
    sizes = spec(name)
    generator = random.Random(f"{name} {seed}")
    _check_notation(sizes)
    _check_symmetries(sizes)
    seen: dict[int, tuple[object, ...]] = {}
    results: Counter[int] = Counter()
    lines: list[list[int]] = []
    for _ in range(games):
        line, result = _play(sizes, generator, seen)
        lines.append(line)
        results[result] += 1
        _check_images(sizes, line)
    if name.startswith("python:"):
        _check_reading(sizes, min(lines, key=len))
        _check_outcomes(sizes, min(lines, key=len))
        _check_pictures(sizes, min(lines, key=len))
    if sizes.sets_up_positions:
        for line in lines:
            _check_set_up(sizes, line)
    _check_training(sizes, min(lines, key=len), seed)
    _check_search(sizes, seed)
    return Conformance(name, tuple(map(len, lines)), dict(results), _remarks(sizes, lines, results))


def _check_outcomes(sizes: GameSpec, line: list[int]) -> None:
    """Check that perfect play agrees with the ends of games and with itself, one ply apart."""
    rules = outside_rules(sizes.name)
    if not isinstance(rules, ClassRules) or not rules.knows_perfect_play:
        return
    position = rules.start()
    for ply, played in enumerate(line):
        known, mover = position.perfect_outcomes(), position.to_play
        for action, outcome in zip(position.legal_actions(), known or (), strict=known is not None):
            after = position.copy()
            after.apply(action)
            if after.is_terminal:
                reached = after.result if mover == 0 else -after.result
            else:
                following = after.perfect_outcomes()
                if following is None:
                    continue
                reached = max(following) if after.to_play == mover else -max(following)
            _require(
                outcome == reached,
                sizes,
                line[:ply],
                f"perfect_outcomes() says {outcome} for action {action}, but the position after it "
                f"is {reached} for the same player",
            )
        position.apply(played)


def _check_reading(sizes: GameSpec, line: list[int]) -> None:
    """Check that reading the legal actions and the planes of each position changes nothing."""
    rules = outside_rules(sizes.name)
    if not isinstance(rules, ClassRules):
        return
    position = rules.start()
    for ply, played in enumerate(line):
        planes = position.packed_observation()
        legal = position.legal_actions()
        _require(
            position.packed_observation() == planes,
            sizes,
            line[:ply],
            "legal_actions() changes the position: try moves on a copy",
        )
        _require(
            position.legal_actions() == legal,
            sizes,
            line[:ply],
            "legal_actions() returns other actions when it is called again",
        )
        position.apply(played)


def _check_pictures(sizes: GameSpec, line: list[int]) -> None:
    """Check the picture of each position of a game, and that drawing it changes nothing."""
    rules = outside_rules(sizes.name)
    if not isinstance(rules, ClassRules) or not rules.draws:
        return
    position = rules.start()
    for ply in range(len(line) + 1):
        before = (str(position), position.packed_observation())
        same = position.svg() == position.svg()
        same = same and before == (str(position), position.packed_observation())
        _require(same, sizes, line[:ply], "svg() changes the position, or its answer varies")
        if ply < len(line):
            position.apply(line[ply])


def _look(state: State) -> tuple[object, ...]:
    """Return everything that can be read from a position."""
    return (
        (state.ply, state.to_play, state.is_terminal, state.result, state.hash),
        tuple(state.legal_actions()),
        state.observation().tobytes(),
        str(state),
    )


def _play(
    sizes: GameSpec, generator: random.Random, seen: dict[int, tuple[object, ...]]
) -> tuple[list[int], int]:
    """Play one random game and check every position; return its actions and its result."""
    state, line = State(sizes.name), list[int]()
    _require(state.to_play == 0, sizes, line, "the first player is not to play at the start")
    while not state.is_terminal:
        _require(
            len(line) < sizes.max_length,
            sizes,
            line,
            f"the game continues beyond max_length = {sizes.max_length}: raise it to the plies of "
            "the longest game, or let the game end there",
        )
        _check_position(sizes, state, line, generator)
        _check_hash(sizes, state, line, seen)
        action = generator.choice(state.legal_actions())
        before, twin = _look(state), state.copy()
        twin.apply(action)
        _require(
            _look(state) == before,
            sizes,
            line,
            (f"playing {action} on a copy changed it: copy() must copy each array and list too"),
        )
        state.apply(action)
        line.append(action)
        _require(
            _look(twin) == _look(state),
            sizes,
            line,
            "the copy continues differently: copy() leaves out data that apply() needs, or a "
            "method uses random numbers",
        )
    _check_hash(sizes, state, line, seen)
    _require(state.legal_actions() == [], sizes, line, "it is over, but actions are legal")
    _require(state.result in (-1, 0, 1), sizes, line, f"the result is {state.result}")
    _check_refused(sizes, state, line, range(min(_ILLEGAL_TRIED, sizes.num_actions)))
    _require(
        _look(State(sizes.name, line)) == _look(state),
        sizes,
        line,
        "replayed, it differs: apply() must depend on nothing but the position",
    )
    _check_ending(sizes, state, line)
    return line, state.result


def _check_set_up(sizes: GameSpec, line: list[int]) -> None:
    """Check that every position of a game can be written, read back and played on."""
    state = State(sizes.name)
    for ply in range(len(line) + 1):
        text = state.setup_text()
        try:
            read = State(sizes.name, [], text)
            # Go forgets repetition, passes and earlier boards, so legal actions may be more.
            is_same = (
                read.to_play == state.to_play
                and read.setup_text() == text
                and set(state.legal_actions()) <= set(read.legal_actions())
            )
        except ValueError as error:
            raise _broken(
                sizes, line[:ply], f"set_up() refuses the text of setup_text(), {text!r}: {error}"
            ) from error
        except RuntimeError as error:
            failure = failure_in(error)
            if failure is None:
                raise
            raise ConfigError(f"{failure}; in the position set_up({text!r})") from failure.__cause__
        _require(
            is_same,
            sizes,
            line[:ply],
            f"set_up({text!r}) is another position: setup_text() must write all that it takes",
        )
        if ply < len(line):
            state.apply(line[ply])
    for wrong in ("no position at all", "/"):
        try:
            State(sizes.name, [], wrong)
        except ValueError:
            continue
        raise _broken(sizes, [], f"set_up({wrong!r}) must raise ValueError")


def _check_ending(sizes: GameSpec, state: State, line: list[int]) -> None:
    """Check that the game's final planes and score are the same when they are read again."""
    before, ending = _look(state), _ending(sizes, state)
    for other in (state, state.copy(), State(sizes.name, line)):
        _require(
            _ending(sizes, other) == ending,
            sizes,
            line,
            "its final planes or score change when read again",
        )
    _require(_look(state) == before, sizes, line, "reading its final planes or score changed it")


def _ending(sizes: GameSpec, state: State, symmetry: int = 0) -> tuple[list[int], float | None]:
    """Return the final planes under a symmetry, and the score; empty if the game has none."""
    planes: list[int] = []
    if sizes.num_final_planes:
        for plane in state.final_planes().reshape(-1, sizes.board_points):
            moved = [_moved_points(sizes, plane == owner, symmetry) for owner in (1, -1)]
            planes += (moved[0] - moved[1]).tolist()
    return planes, state.final_score() if sizes.has_final_score else None


def _moved_points(sizes: GameSpec, points: NDArray[np.bool_], symmetry: int) -> NDArray[np.int8]:
    """Return a set of points ``[board_points]`` under a symmetry, as a plane of an observation."""
    bits = np.zeros(sizes.observation_shape[0] * sizes.board_points, np.bool_)
    bits[: sizes.board_points] = points
    moved = zerofleet_core.transform_observation(sizes.name, np.packbits(bits), symmetry)
    return np.unpackbits(moved)[: sizes.board_points].astype(np.int8)


def _check_position(
    sizes: GameSpec, state: State, line: list[int], generator: random.Random
) -> None:
    legal = state.legal_actions()
    _require(len(legal) > 0, sizes, line, "it is not over, but nothing is legal")
    _require(legal == sorted(set(legal)), sizes, line, "legal actions are not in ascending order")
    _require(
        0 <= legal[0] <= legal[-1] < sizes.num_actions,
        sizes,
        line,
        "a legal action is not an action",
    )
    _require(state.result == 0, sizes, line, "it has a result before it is over")
    _require(state.ply == len(line), sizes, line, f"its ply is {state.ply}, not {len(line)}")
    packed = state.observation()
    _require(
        packed.dtype == np.uint8 and packed.shape == (sizes.observation_bytes,),
        sizes,
        line,
        f"its observation is {packed.shape} {packed.dtype}",
    )
    count = sizes.observation_shape[0] * sizes.board_points
    padding = np.unpackbits(packed)[count:]
    _require(not padding.any(), sizes, line, "its observation is padded with other than zeros")
    tried = {generator.randrange(sizes.num_actions) for _ in range(_ILLEGAL_TRIED)} - set(legal)
    _check_refused(sizes, state, line, [-1, sizes.num_actions, *sorted(tried)])


def _check_refused(
    sizes: GameSpec, state: State, line: list[int], illegal: range | list[int]
) -> None:
    before = _look(state)
    for action in illegal:
        try:
            state.apply(action)
        except ValueError:
            continue
        raise _broken(sizes, line, f"the illegal action {action} was played")
    _require(_look(state) == before, sizes, line, "a refused action changed it")


def _check_hash(
    sizes: GameSpec, state: State, line: list[int], seen: dict[int, tuple[object, ...]]
) -> None:
    """Check that equal hashes mean equal positions: the cache of predictions relies on it."""
    shown = (state.observation().tobytes(), state.legal_actions())
    _require(
        seen.setdefault(state.hash, shown) == shown,
        sizes,
        line,
        "another position, with another observation or other legal actions, has the same hash",
    )


def _check_notation(sizes: GameSpec) -> None:
    state = State(sizes.name)
    texts = [state.action_to_string(action) for action in range(sizes.num_actions)]
    actions: dict[str, int] = {}
    for action, text in enumerate(texts):
        first = actions.setdefault(text, action)
        _require(first == action, sizes, [], f"actions {first} and {action} are both {text!r}")
        _require(len(text.split()) == 1, sizes, [], f"action {action} is {text!r}, not one word")
        _require(
            state.string_to_action(text) == action,
            sizes,
            [],
            (f"string_to_action({text!r}) is not {action}"),
        )
    for text in ("", "no action at all"):
        try:
            state.string_to_action(text)
        except ValueError:
            continue
        raise _broken(
            sizes, [], f"{text!r} is read as an action: string_to_action() must return None"
        )


def _moved(sizes: GameSpec, symmetry: int) -> NDArray[np.int64]:
    """Return the image of each action under a symmetry, [num_actions]."""
    numbers = np.arange(sizes.num_actions, dtype=np.float32)
    came_from = zerofleet_core.transform_policy(sizes.name, numbers, symmetry).astype(np.int64)
    _require(
        bool((np.sort(came_from) == numbers).all()),
        sizes,
        [],
        f"symmetry {symmetry} puts two actions in one place",
    )
    return np.argsort(came_from)


def _check_symmetries(sizes: GameSpec) -> None:
    """Check that every symmetry permutes points and actions, and has an inverse."""
    name, generator = sizes.name, np.random.default_rng(1)
    bits = generator.integers(0, 2, sizes.observation_shape[0] * sizes.board_points, np.uint8)
    observation, own = np.packbits(bits), np.arange(sizes.num_actions)
    for symmetry in range(sizes.num_symmetries):
        moved = _moved(sizes, symmetry)
        try:
            inverse = zerofleet_core.invert_symmetry(name, symmetry)
        except ValueError as error:
            raise _broken(sizes, [], f"nothing undoes symmetry {symmetry}") from error
        there = zerofleet_core.transform_observation(name, observation, symmetry)
        back = zerofleet_core.transform_observation(name, there, inverse)
        _require(
            bool((back == observation).all() and (_moved(sizes, inverse)[moved] == own).all()),
            sizes,
            [],
            f"symmetry {inverse} does not undo symmetry {symmetry}",
        )
        if symmetry == 0:
            same = (there == observation).all() and (moved == own).all()
            _require(bool(same), sizes, [], "symmetry 0 is not the identity")


def _check_images(sizes: GameSpec, line: list[int]) -> None:
    """Check that the image of a game is a game, if a symmetry leaves the start unchanged."""
    for symmetry in range(1, sizes.num_symmetries):
        if _moves_start(sizes, symmetry):
            continue  # as in Othello, where a quarter turn moves the first four discs
        moved = _moved(sizes, symmetry)
        state, image = State(sizes.name), State(sizes.name)
        for ply in range(len(line) + 1):
            _require(
                _is_image(sizes, state, image, symmetry, moved),
                sizes,
                line[:ply],
                f"symmetry {symmetry} of the actions does not lead to its image: "
                "symmetric_action(action, symmetry) must return the number that the action has on "
                "the transformed board; where actions are points, return "
                "cls.symmetric_point(action, symmetry). Leave the symmetry out if a rule changes "
                "with it, for example if it swaps the players",
            )
            if ply < len(line):
                state.apply(line[ply])
                image.apply(int(moved[line[ply]]))
        _require(
            _ending(sizes, state, symmetry) == _ending(sizes, image),
            sizes,
            line,
            f"under symmetry {symmetry}, the end of the image is not the image of the end",
        )


def _moves_start(sizes: GameSpec, symmetry: int) -> bool:
    """Return whether the image of the start is another position."""
    start = State(sizes.name).observation()
    return bool((zerofleet_core.transform_observation(sizes.name, start, symmetry) != start).any())


def _is_image(
    sizes: GameSpec, state: State, image: State, symmetry: int, moved: NDArray[np.int64]
) -> bool:
    observation = zerofleet_core.transform_observation(sizes.name, state.observation(), symmetry)
    return (
        image.legal_actions() == sorted(moved[state.legal_actions()].tolist())
        and (image.to_play, image.result) == (state.to_play, state.result)
        and bool((observation == image.observation()).all())
    )


def _check_training(sizes: GameSpec, line: list[int], seed: int) -> None:
    """Check that the replay buffer rebuilds the positions of a stored game."""
    states = [State(sizes.name)]
    for action in line:
        states.append(states[-1].copy())
        states[-1].apply(action)
    legal = [state.legal_actions() for state in states[:-1]]
    result = states[-1].result
    endings = ["final_planes", "final_score"]
    buffer = ReplayBuffer(sizes.name, len(line), 1, auxiliary=endings)
    try:
        buffer.add(
            np.array(line, np.int16),
            result,
            np.ones(len(line), np.bool_),
            np.cumsum([0, *map(len, legal)]).astype(np.int32),
            np.array([action for actions in legal for action in actions], np.int16),
            np.ones(sum(map(len, legal)), np.int32),
        )
    except ValueError as error:
        raise _broken(sizes, line, f"the replay buffer refuses a game: {error}") from error
    observations, policies, values, plies, *_, results = buffer.sample_with_plies(
        _SAMPLED, seed, symmetry=False
    )
    *_, targets = buffer.sample_with_auxiliary(_SAMPLED, seed, symmetry=False)
    planes, score = _ending(sizes, states[-1])
    ending = np.array(planes if score is None else [*planes, score], np.float32)
    for row in range(_SAMPLED):
        ply = int(plies[row])
        state = states[ply]
        sign = 1 if state.to_play == 0 else -1
        kept = (
            bool((observations[row] == state.observation()).all())
            and np.flatnonzero(policies[row]).tolist() == legal[ply]
            and values[row] == results[row] == sign * result
            and np.array_equal(targets[row], sign * ending)
        )
        _require(kept, sizes, line[:ply], "the replay buffer rebuilds another position")


def _check_search(sizes: GameSpec, seed: int) -> None:
    """Check that self-play with an untrained network plays games that replay."""
    engine = SelfPlay(sizes.name, 2, SearchConfig(num_simulations=4), seed)
    finished = engine.take_finished()
    for _ in range(_SEARCH_BATCHES):
        rows = len(engine.select())
        logits = np.zeros((rows, sizes.num_actions), np.float32)
        engine.backup(logits, np.zeros(rows, np.float32), 1)
        finished += engine.take_finished()
        if len(finished) > 1:
            break
    for game in [*finished, *engine.unfinished()]:
        state, line = State(sizes.name, [], game.start), game.action.tolist()
        for ply, action in enumerate(line):
            start, end = game.offsets[ply : ply + 2]
            searched = game.legal_actions[start:end].tolist()
            _require(
                searched == state.legal_actions(),
                sizes,
                line[:ply],
                "self-play searched other actions than the legal ones",
            )
            state.apply(action)
        _require(
            not state.is_terminal or game.result == state.result,
            sizes,
            line,
            f"self-play says that the result is {game.result}",
        )


def _require(holds: bool, sizes: GameSpec, line: list[int], what: str) -> None:
    if not holds:
        raise _broken(sizes, line, what)


def _broken(sizes: GameSpec, line: list[int], what: str) -> AssertionError:
    return AssertionError(f"{sizes.name}: {what}; actions from the start: {line}")


def _remarks(
    sizes: GameSpec, lines: Sequence[Sequence[int]], results: Mapping[int, int]
) -> tuple[str, ...]:
    """Return remarks on a game, in sentences that continue after "but".

    Args:
        sizes: the game.
        lines: random games, each the actions from the start to the end.
        results: number of games that ended +1, -1 and 0.
    """
    games = [_seen_turns(sizes, line) for line in lines]
    found: list[str] = []
    if not _shows_whose_turn(games):
        found.append(
            "observation() does not say whose turn it is, and the network sees nothing else: add "
            "a plane of ones when the second player is to play"
        )
    if not any(second.any() for _, second in games) and max(map(len, lines)) > 1:
        found.append(
            "the second player was never to play: check that apply() changes to_play, and that "
            "copy() copies it"
        )
    elif len(results) == 1 and len(lines) >= _TELLING_GAMES:
        [result] = results
        ended = {1: "won by the first player", -1: "won by the second", 0: "drawn"}[result]
        found.append(
            f"all {len(lines)} random games were {ended}: check that apply() sets result for "
            "the first player: +1 if the first player won, no matter who moved last"
        )
    if sizes.name.startswith("python:"):
        found += [
            f"symmetry {symmetry} changes the start position, so this check cannot test it: make "
            "sure that no rule changes with it, such as the direction in which a player moves"
            for symmetry in range(1, sizes.num_symmetries)
            if _moves_start(sizes, symmetry)
        ]
    return tuple(found)


def _shows_whose_turn(games: Sequence[tuple[NDArray[np.bool_], NDArray[np.bool_]]]) -> bool:
    """Return whether the planes show the side to move, as far as random games reveal it.

    Either one point does so in every position, or the planes are relative to the player to move:
    own stones and the opponent's. In the latter case a plane resembles another plane of the next
    ply, on the board as it is or rotated to the mover, more than it resembles itself.

    Args:
        games: random games, each as ``_seen_turns`` returns it.
    """
    seen, second = (np.concatenate(parts) for parts in zip(*games, strict=True))
    goes_with = seen == second[:, None, None, None]
    if goes_with.all(0).any() or (~goes_with).all(0).any():
        return True
    before = np.concatenate([planes[:-1][turns[1:] != turns[:-1]] for planes, turns in games])
    after = np.concatenate([planes[1:][turns[1:] != turns[:-1]] for planes, turns in games])
    views = [after, after[:, :, ::-1], after[:, :, ::-1, ::-1]]
    for plane in range(seen.shape[1]):
        others = [other for other in range(seen.shape[1]) if other != plane]
        here = before[:, plane]
        near = [(here != view[:, other]).sum() for view in views for other in others]
        if near and min(near) < (here != after[:, plane]).sum():
            return True
    return False


def _seen_turns(
    sizes: GameSpec, line: Sequence[int]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return the planes of each ply of a game, ``[plies, *observation_shape]``, and the player."""
    state, planes, second = State(sizes.name), list[NDArray[np.uint8]](), list[bool]()
    for action in line:
        planes.append(np.unpackbits(state.observation()))
        second.append(state.to_play == 1)
        state.apply(action)
    count = sizes.observation_shape[0] * sizes.board_points
    bits = np.array(planes, np.bool_)[:, :count]
    return bits.reshape(len(line), *sizes.observation_shape), np.array(second)
