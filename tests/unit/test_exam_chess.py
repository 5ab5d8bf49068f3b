"""Exams of chess: endgames, forced mates, and games from won endings."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from zerofleet_core import State, game_spec

from zerofleet.cli.exam import _examine, _ExamRequest, _InProcess
from zerofleet.config import run_from_values
from zerofleet.database import Database
from zerofleet.errors import ConfigError
from zerofleet.exam import ExamResult, examine, has_exam, position_kinds
from zerofleet.exam.chess_endings import (
    ENDINGS,
    UNKNOWN,
    _best_defence,
    ending_table,
    play_endings,
    plies_to_mate,
    won_positions,
)
from zerofleet.exam.chess_positions import ChessPositionKind, chess_sample
from zerofleet.exam.examined_player import ExaminedPlayer
from zerofleet.exam.sample import LabelledPosition
from zerofleet.prediction import Prediction

GAME = "chess"
KINDS: tuple[ChessPositionKind, ...] = ("endgames", "mates")
ACTIONS = game_spec(GAME).num_actions


def legal(position: LabelledPosition) -> list[int]:
    return [action for action, each in enumerate(position.outcomes) if each is not None]


def begun(position: LabelledPosition) -> State:
    return State(GAME, [], position.start)


def after(state: State, action: int) -> State:
    found = state.copy()
    found.apply(action)
    return found


def followers(state: State) -> Iterator[State]:
    return (after(state, action) for action in state.legal_actions())


@pytest.mark.parametrize("kind", KINDS)
def test_every_position_is_legal_and_allows_an_error(kind: ChessPositionKind) -> None:
    """The code that reads the positions checks that each legal move has a sign."""
    positions = chess_sample(GAME, kind)
    assert len(positions) == {"endgames": 2000, "mates": 500}[kind]
    assert len({position.start for position in positions}) == len(positions)
    for position in positions:
        assert legal(position) == begun(position).legal_actions()
        assert position.allows_error
        assert position.value >= (0 if kind == "endgames" else 1)


def test_endgames_are_balanced() -> None:
    positions = chess_sample(GAME, "endgames")
    for position in positions:
        pieces = [letter for letter in position.start.split()[0] if letter.isalpha()]
        assert sorted(position.group) == sorted("".join(pieces).upper())
    groups = Counter(position.group for position in positions)
    assert {"KQK", "KRK", "KPK", "KBBK", "KBNK", "KRKB", "KPKP"} <= groups.keys()
    # with two knights few positions are no draw
    assert sum(count > 30 for count in groups.values()) == 29
    assert 0.4 < sum(position.value for position in positions) / len(positions) < 0.75
    begin = Counter(position.group for position in chess_sample(GAME, "endgames", 300))
    assert len(begin) > 25  # a short exam has them all


def test_endgames_of_three_men_are_as_a_retrograde_analysis_says() -> None:
    """The file's labels come from Syzygy tables."""
    checked = 0
    for position in chess_sample(GAME, "endgames"):
        if position.group not in ("KQK", "KRK", "KPK"):
            continue
        state = begun(position)
        bare = position.start.split()[1] != colour_with_pieces(position.start)
        for action in legal(position):
            left = plies_to_mate(after(state, action).setup_text())
            won = left is not None
            assert position.outcomes[action] == (-1 if bare else 1) * won
            checked += 1
    assert checked > 500


def colour_with_pieces(fen: str) -> str:
    pieces = [letter for letter in fen.split()[0] if letter.isalpha() and letter not in "Kk"]
    return "w" if pieces[0].isupper() else "b"


def mates(state: State, length: int) -> bool:
    """Return whether the player to move can force mate in at most this many moves."""
    return any(keeps_mate(each, length) for each in followers(state))


def keeps_mate(state: State, length: int) -> bool:
    """Return the same after a move, with the other player to move."""
    if state.is_terminal:
        return state.result != 0
    return length > 1 and all(
        not each.is_terminal and mates(each, length - 1) for each in followers(state)
    )


def test_mates_are_those_of_the_rules() -> None:
    """The test checks every move of all mates in one, and of the first mates in two."""
    positions = chess_sample(GAME, "mates")
    for position in positions[::3]:
        assert position.group == "mate in 1"
        for action in legal(position):
            mate = keeps_mate(after(begun(position), action), 1)
            assert mate == (position.outcomes[action] == 1)
    for position in positions[1:40:3]:
        assert position.group == "mate in 2"
        assert not mates(begun(position), 1)
        for action in legal(position):
            mate = keeps_mate(after(begun(position), action), 2)
            assert mate == (position.outcomes[action] == 1)


@pytest.mark.slow
def test_longer_mates_are_those_of_the_rules() -> None:
    for position in chess_sample(GAME, "mates", 15)[2::3]:
        assert position.group == "mate in 3"
        assert not mates(begun(position), 2)
        for action in position.best_actions:
            assert keeps_mate(after(begun(position), action), 3)


class KnowsTheSample:
    """A model that plays the best (``sign`` 1), worst (-1) or a random (0) move in a position."""

    version = 1

    def __init__(self, sample: Sequence[LabelledPosition], sign: int) -> None:
        self.generator = np.random.default_rng(1)
        self.logits: dict[bytes, NDArray[np.float16]] = {}
        self.sign = sign
        for position in sample:
            outcomes = [0 if each is None else each for each in position.outcomes]
            key = begun(position).observation().tobytes()
            self.logits[key] = (12 * sign * np.array(outcomes)).astype(np.float16)

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        even = np.zeros(ACTIONS, np.float16)
        logits = [self.logits.get(row.tobytes(), even) for row in observations]
        if self.sign == 0:
            logits = list(self.generator.random((len(logits), ACTIONS)).astype(np.float16))
        return Prediction(np.stack(logits), np.zeros(len(logits), np.float32), 1)


async def result_of(kind: ChessPositionKind, sign: int, game: str = GAME) -> ExamResult:
    sample = chess_sample(GAME, kind, 200)
    predictor = KnowsTheSample(sample, sign)
    return await examine(game, predictor, num_simulations=1, positions=200, kind=kind)


@pytest.mark.parametrize("kind", KINDS)
async def test_perfect_worst_and_random_play(kind: ChessPositionKind) -> None:
    perfect = await result_of(kind, 1)
    assert (perfect.kind, perfect.positions, perfect.errors) == (kind, 200, 0)
    assert (perfect.prior_errors, perfect.wrong_answers) == (0, ())
    assert sum(group.positions for group in perfect.groups) == 200
    assert all(group.errors == 0 for group in perfect.groups)
    worst = await result_of(kind, -1)
    assert worst.prior_errors == 200
    positions = {position.start: position for position in chess_sample(GAME, kind, 200)}
    for wrong in worst.wrong_answers:
        position = positions[wrong.start]
        state = begun(position)
        assert wrong.moves == ""
        assert [*wrong.right] == [state.action_to_san(each) for each in position.best_actions]
        assert wrong.played not in wrong.right
    assert sum(group.errors for group in worst.groups) == worst.errors == len(worst.wrong_answers)
    shares = [len(each.best_actions) / len(legal(each)) for each in positions.values()]
    chance = await result_of(kind, 0)
    error = np.sqrt(sum(share * (1 - share) for share in shares))
    assert chance.prior_errors == pytest.approx(200 - sum(shares), abs=4 * error)


def test_chess_with_any_rules_has_an_exam() -> None:
    for game in ("chess", "chess(history=8)", "chess(chess960=true)"):
        assert position_kinds(game) == KINDS
        assert chess_sample(game, "mates", 3)
    assert not has_exam("openspiel:chess")


@pytest.mark.parametrize(
    ("material", "most", "won", "lost"),
    [
        ("KQK", 10, 144508, 200896),
        ("KRK", 16, 175168, 201700),
        ("KPK", 28, 124960, 97604),
        pytest.param("KBBK", 19, 2503608, 2814040, marks=pytest.mark.slow),
    ],
)
def test_the_longest_mates_are_those_known(material: str, most: int, won: int, lost: int) -> None:
    """The numbers are the moves to mate, and the won and lost positions."""
    table = ending_table(material)
    assert table.strong[table.strong != UNKNOWN].max() == 2 * most - 1
    assert (table.strong != UNKNOWN).sum() == won
    assert (table.weak != UNKNOWN).sum() == lost


def test_plies_to_mate_of_both_colours() -> None:
    assert plies_to_mate("6k1/8/6K1/8/8/8/8/Q7 w - - 0 1") == 1
    assert plies_to_mate("q7/8/8/8/8/6k1/8/6K1 b - - 0 1") == 1
    assert plies_to_mate("8/8/8/8/8/4k3/4p3/4K3 w - - 0 1") is None  # stalemate
    assert plies_to_mate("8/8/8/8/8/3k4/4p3/4K3 b - - 0 1") is None
    assert plies_to_mate("8/8/8/8/8/5k2/4p3/6K1 b - - 0 1") is not None
    assert plies_to_mate("8/8/8/8/8/5k2/4n3/6K1 b - - 0 1") is None
    assert plies_to_mate("8/8/8/8/8/5k2/8/6K1 b - - 0 1") is None


class Perfect:
    """Plays the fastest mate, or the slowest one."""

    game = GAME

    def __init__(self, sign: int) -> None:
        self.sign = sign

    async def search(
        self, positions: Sequence[Sequence[int]], starts: Sequence[str]
    ) -> list[Perfect.Answer]:
        states = [State(GAME, *each) for each in zip(positions, starts, strict=True)]
        return [self.Answer(self._best(state)) for state in states]

    def _best(self, state: State) -> int:
        left = {action: self._left(after(state, action)) for action in state.legal_actions()}
        return min(left, key=lambda action: self.sign * left[action])

    def _left(self, state: State) -> int:
        if state.is_terminal:
            return 0 if state.result else UNKNOWN
        plies = plies_to_mate(state.setup_text())
        return UNKNOWN if plies is None else plies

    class Answer:
        def __init__(self, best_action: int) -> None:
            self.best_action = best_action


@pytest.mark.parametrize(
    "material", [*ENDINGS[:2], pytest.param("KBBK", marks=pytest.mark.slow), "KPK"]
)
async def test_won_endings_are_won_by_the_perfect_player_alone(material: str) -> None:
    starts = won_positions(material, 10, seed=1)
    assert len(set(starts)) == 10
    assert {start.split()[1] for start in starts} == {"w", "b"}
    assert all((plies_to_mate(start) or 0) % 2 == 1 for start in starts)
    perfect = await play_endings(cast("ExaminedPlayer", Perfect(1)), material, 10)
    assert (perfect.games, perfect.wins, perfect.kept, perfect.given_away) == (10, 10, 10, 0)
    worst = await play_endings(cast("ExaminedPlayer", Perfect(-1)), material, 10)
    assert worst.wins + worst.draws == 10
    assert worst.wins < 5
    assert 0 < worst.given_away <= 10


def test_more_games_than_won_positions_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"1,000,000 games from won positions of KRK: it has"):
        won_positions("KRK", 1_000_000, seed=1)


def test_the_defender_resists_as_long_as_it_can() -> None:
    """Against perfect play a game takes as many plies as the table says."""
    generator = random.Random(1)
    for start in won_positions("KRK", 5, seed=2):
        state = State(GAME, [], start)
        plies = plies_to_mate(start)
        while not state.is_terminal:
            state.apply(Perfect(1)._best(state))
            if not state.is_terminal:
                state.apply(_best_defence(state, generator))
        assert (state.ply, abs(state.result)) == (plies, 1)


async def test_the_command_prints_errors_by_group(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command runs both kinds of positions, and games from all won endings."""
    run = run_from_values({"name": "chess", "game": GAME})
    database.register_run(run)
    epoch = database.acquire_fence("chess", "trainer")
    database.insert_model("chess", 1, f"{1:064x}", 9, {}, "where", epoch)
    request = _ExamRequest(run, 2, positions=60, perfect_play=1, gnugo=None, levels=())
    for as_json in (True, False):
        await _examine(request, cast("_InProcess", KnowsTheSample((), 0)), database, as_json)
    printed = capsys.readouterr().out.splitlines()
    reports = [json.loads(line) for line in printed[:6]]
    kinds = [*KINDS, *(f"won:{material}" for material in ENDINGS)]
    assert [each["kind"] for each in reports] == kinds
    assert sum(group["errors"] for group in reports[0]["groups"]) == reports[0]["errors"]
    assert [group["name"] for group in reports[1]["groups"]] == [f"mate in {n}" for n in (1, 2, 3)]
    assert [group["positions"] for group in reports[1]["groups"]] == [20, 20, 20]
    assert any(line.startswith("  mate in 1 ") and "/20, mate in 2 " in line for line in printed)
    assert [row.kind for row in database.exams("chess")] == kinds[2:]
