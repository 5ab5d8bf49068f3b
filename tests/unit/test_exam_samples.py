"""Exams of positions against players whose result is known."""

from collections import Counter
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray
from zerofleet_core import (
    State,
    connect_four_action_outcomes,
    connect_four_outcome,
    connect_four_score,
    game_spec,
)

from zerofleet.errors import ConfigError
from zerofleet.exam import PositionKind, examine
from zerofleet.exam.examined_player import ExaminedPlayer
from zerofleet.exam.sample import (
    MOST_A_PLY,
    LabelledPosition,
    draw_good_positions,
    good_sample,
    random_sample,
    symmetry_key,
)
from zerofleet.exam.solver_games import (
    PerfectPlay,
    action_outcomes,
    best_actions,
    outcome,
    play_first,
    play_from,
)
from zerofleet.games import parse_actions
from zerofleet.prediction import Prediction

SIZE = 40


@pytest.fixture
async def sample() -> tuple[LabelledPosition, ...]:
    return await random_sample("connect_four", SIZE, seed=1)


class KnowsTheSample:
    """Plays the action of best (``sign`` 1) or worst (-1) outcome in each position of a sample.

    And values it rightly; all other positions at 0.
    """

    def __init__(
        self, sample: tuple[LabelledPosition, ...], sign: int, game: str = "connect_four"
    ) -> None:
        self.logits: dict[bytes, list[float]] = {}
        self.values: dict[bytes, int] = {}
        self.even = [0.0] * game_spec(game).num_actions
        for position in sample:
            observation = State(game, position.actions).observation()
            self.values[observation.tobytes()] = position.value
            self.logits[observation.tobytes()] = [
                0.0 if outcome is None else 12.0 * sign * outcome for outcome in position.outcomes
            ]

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        rows = [row.tobytes() for row in observations]
        logits = [self.logits.get(row, self.even) for row in rows]
        values = [self.values.get(row, 0) for row in rows]
        return Prediction(np.array(logits, np.float16), np.array(values, np.float32), 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "kind"), [("connect_four", "random"), ("connect_four", "good"), ("othello", "random")]
)
async def test_perfect_and_worst_play(game: str, kind: PositionKind) -> None:
    is_random = kind == "random"
    positions = await random_sample(game, SIZE, seed=1) if is_random else good_sample(SIZE)

    async def error_rate(sign: int) -> float:
        result = await examine(
            game,
            KnowsTheSample(positions, sign, game),
            num_simulations=2,
            positions=SIZE,
            kind=kind,
            seed=1,
        )
        assert (result.game, result.kind, result.positions) == (game, kind, SIZE)
        assert result.wrong == (sign < 0,) * SIZE
        for position, each in zip(positions, result.wrong_answers, strict=sign < 0):
            assert parse_actions(game, each.moves) == list(position.actions)
            state = State(game, position.actions)
            assert [*each.right] == [state.action_to_string(a) for a in position.best_actions]
            assert each.played not in each.right
        # Two of the three values of the root and its two visits are 0, except where a game ended.
        # The prior and two simulations agree here.
        assert result.prior_errors == result.errors
        assert result.value_error is not None
        assert 0.1 < result.value_error < 0.6
        return result.error_rate

    assert await error_rate(1) == 0.0
    assert await error_rate(-1) == 1.0


@pytest.mark.slow
async def test_the_sample_is_what_it_says(sample: tuple[LabelledPosition, ...]) -> None:
    seen: set[bytes] = set()
    for position in sample:
        state = State("connect_four", position.actions)
        assert 10 <= state.ply <= 30
        assert not state.is_terminal
        outcomes = [outcome for outcome in position.outcomes if outcome is not None]
        assert len(set(outcomes)) > 1
        assert max(outcomes) == connect_four_outcome(position.actions)
        seen.add(state.observation().tobytes())
        legal = [column for column, each in enumerate(position.outcomes) if each is not None]
        assert legal == state.legal_actions()
        assert [position.is_error(column) for column in legal] == [
            each != max(outcomes) for each in outcomes
        ]
    assert len(seen) == SIZE


async def test_the_sample_of_othello_is_what_it_says() -> None:
    empties: set[int] = set()
    for position in await random_sample("othello", SIZE, seed=1):
        state = State("othello", position.actions)
        assert not state.is_terminal
        outcomes = {a: each for a, each in enumerate(position.outcomes) if each is not None}
        assert list(outcomes) == state.legal_actions()
        assert len(set(outcomes.values())) > 1
        empties.add(str(state).count("."))
    assert min(empties) >= 6
    assert max(empties) == 12


async def test_the_seed_decides_the_sample() -> None:
    three = await random_sample("connect_four", 3, seed=1)
    assert three == (await random_sample("connect_four", 40, seed=1))[:3]
    assert three != await random_sample("connect_four", 3, seed=2)


async def test_a_request_has_no_more_rows_than_the_server_takes(
    sample: tuple[LabelledPosition, ...],
) -> None:
    rows: list[int] = []

    class Counts(KnowsTheSample):
        async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
            rows.append(len(observations))
            return await super().predict(observations)

    predictor = Counts(sample, 1)
    result = await examine(
        "connect_four", predictor, num_simulations=2, positions=SIZE, seed=1, most_rows=16
    )
    assert (result.positions, max(rows)) == (SIZE, 16)


@pytest.mark.slow
def test_good_positions_are_what_they_say() -> None:
    """The labels are checked for the late positions, which are cheap to solve."""
    everything = good_sample()
    plies = Counter(len(position.actions) for position in everything)
    assert max(plies.values()) == MOST_A_PLY
    assert min(plies) == 2
    assert max(plies) > 35
    assert all(position.allows_error for position in everything)
    keys = {symmetry_key(State("connect_four", position.actions)) for position in everything}
    assert len(keys) == len(everything)
    late = [position for position in everything if len(position.actions) > 14]
    for position in late[:100]:
        assert position.outcomes == tuple(connect_four_action_outcomes(position.actions))


async def test_positions_of_another_game_are_refused() -> None:
    predictor = KnowsTheSample((), 1)
    with pytest.raises(
        ConfigError, match="no sample of positions named 'lines': choose random or good"
    ):
        await examine("connect_four", predictor, num_simulations=1, positions=1, kind="lines")


def test_the_seed_decides_the_good_positions() -> None:
    """With labels that cost nothing: a column is as good as its number is small."""

    def outcomes(actions: Sequence[int]) -> list[int | None]:
        legal = State("connect_four", actions).legal_actions()
        return [(1 if column < 4 else -1) if column in legal else None for column in range(7)]

    drawn = draw_good_positions(6, 4, 1, outcomes)
    assert drawn == draw_good_positions(6, 4, 1, outcomes)
    assert drawn != draw_good_positions(6, 4, 2, outcomes)
    first_replies = Counter(position.actions[0] for position in drawn)
    assert first_replies[3] > len(drawn) / 2


class Solver:
    """Plays the best action, or the worst, by the solver."""

    game = "connect_four"

    def __init__(self, sign: int) -> None:
        self.sign = sign

    async def choose(self, positions: Sequence[Sequence[int]]) -> list[int]:
        return [self._best(connect_four_action_outcomes(actions)) for actions in positions]

    def _best(self, outcomes: Sequence[int | None]) -> int:
        legal = {action: each for action, each in enumerate(outcomes) if each is not None}
        return max(legal, key=lambda action: self.sign * legal[action])


@pytest.mark.slow
async def test_whole_games_against_the_solver(sample: tuple[LabelledPosition, ...]) -> None:
    late = [position for position in sample if len(position.actions) > 17]
    positions = [position.actions for position in late]
    values = Counter(position.value for position in late)
    perfect = await play_from(cast("ExaminedPlayer", Solver(1)), positions)
    assert (perfect.games, perfect.kept, perfect.given_away) == (len(late), len(late), 0)
    # The solver gives nothing away either.
    assert (perfect.wins, perfect.draws) == (values[1], values[0])
    worst = await play_from(cast("ExaminedPlayer", Solver(-1)), positions)
    assert worst.kept == values[-1]
    assert worst.wins == 0
    assert worst.given_away >= values[1] + values[0]
    assert perfect == await play_from(cast("ExaminedPlayer", Solver(1)), positions)
    longest = await play_from(cast("ExaminedPlayer", Solver(1)), positions, "longest")
    assert (longest.wins, longest.draws, longest.given_away) == (values[1], values[0], 0)


class Hurries:
    """A perfect player that wins as soon as it can."""

    async def choose(self, positions: Sequence[Sequence[int]]) -> list[int]:
        return [best_actions(actions)[0] for actions in positions]


@pytest.mark.slow
async def test_perfect_play_wins_from_the_start() -> None:
    ended = await play_first(cast("ExaminedPlayer", Hurries()), 2, "longest")
    assert ended == PerfectPlay(games=2, wins=2, draws=0, kept=2, given_away=0)


def test_the_first_scores_are_those_published() -> None:
    """Pons, "Solving Connect 4": of each first column, and of the answers to the centre."""
    columns = [outcome([column]) for column in range(7)]
    assert columns == [1, 1, 0, -1, 0, 1, 1]  # for who answers
    assert action_outcomes([]) == [-1, -1, 0, 1, 0, -1, -1]
    assert best_actions([]) == [3]
    assert best_actions([3]) == [3]  # all lose, the others sooner
    assert best_actions([0]) == [1, 3]  # they win with the 40th disc


def test_who_resists_and_hurries_needs_41_discs() -> None:
    """From ply 14 of such a game, for the first player; before that the solver needs seconds."""
    actions = [3, 3, 3, 3, 3, 0, 2, 1, 1, 1, 1, 3, 1, 2]
    state = State("connect_four", actions)
    assert connect_four_score(actions) == 1
    while not state.is_terminal:
        action = best_actions(actions)[0]
        state.apply(action)
        actions.append(action)
    assert (state.ply, state.result) == (41, 1)
    lost = [3, 3, 3, 3, 3, 0, 2, 1, 1, 1, 1, 3, 1, 2, 0]
    assert connect_four_action_outcomes(lost) == [-1] * 3 + [None] + [-1] * 3
    assert len(best_actions(lost)) < 6  # evenly, all are as good
