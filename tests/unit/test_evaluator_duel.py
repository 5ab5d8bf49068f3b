"""Games move by move: chance, the bare search, programs from outside, and GNU Go where it is."""

import asyncio
import shutil
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest
from zerofleet_core import SearchConfig

from services.evaluator.anchors import anchor_player
from services.evaluator.board import Answer, Board, GaveUp, Player
from services.evaluator.duel import duel
from services.evaluator.openings import draw_openings
from services.evaluator.outside import OutsidePlayer
from services.evaluator.players import NoNetwork, RandomPlayer, SearchPlayer
from services.evaluator.record import Ply, played_record
from zerofleet.config import SearchSection
from zerofleet.games import State
from zerofleet.gtp.protocol import GtpError
from zerofleet.searches import match_search
from zerofleet.testing import HashPredictor
from zerofleet.testing.records import random_record

ENGINE = Path(__file__).with_name("outside_program.py")


def search(simulations: int) -> SearchConfig:
    return match_search(SearchSection(root="puct", forced_playouts=2.0), simulations)


async def played(
    game: str, players: tuple[Player, Player], openings: list[list[int]]
) -> dict[tuple[int, int], Board]:
    """Every game of the openings, with both sides moving first."""
    boards: dict[tuple[int, int], Board] = {}
    go = asyncio.Event()
    go.set()

    async def keep(finished: list[Board]) -> None:
        boards.update({board.place: board for board in finished})

    places = [(opening, color) for opening in range(len(openings)) for color in (0, 1)]
    await duel(game, openings, places, players, keep, go)
    assert boards.keys() == set(places)
    return boards


def points(boards: dict[tuple[int, int], Board]) -> float:
    """Share of points that the first of the players took."""
    endings = [(board.place[1], board.ending) for board in boards.values()]
    return float(np.mean([(1 + (1 - 2 * c) * e.result) / 2 for c, e in endings if e is not None]))


@pytest.mark.parametrize("game", ["connect_four", "tic_tac_toe"])
async def test_the_bare_search_beats_chance_and_the_games_are_whole_records(game: str) -> None:
    openings = draw_openings(game, 1, 5, seed=1)
    players = (SearchPlayer(game, NoNetwork(game), search(100), 3), RandomPlayer(1))
    boards = await played(game, players, openings)
    assert points(boards) > 0.7
    now = random_record(1).started_at
    for (opening, color), board in boards.items():
        assert board.actions[:1] == openings[opening]
        assert board.ending is not None
        record = played_record(game, board.plies, ((7, 0), (0, 7))[color], board.ending, (now, now))
        state = State(game, record.columns.action.tolist())
        assert (state.is_terminal, state.result, record.reason) == (True, record.result, "rules")
        by_model = record.columns.model_version == 7
        assert by_model.tolist() == [ply % 2 == color for ply in range(record.length)]
        assert (record.columns.simulations[1:] > 0).tolist() == by_model[1:].tolist()
        assert record.columns.simulations[0] == 0
        assert (
            len(record.columns.legal_actions)
            == record.columns.offsets[-1]
            == len(record.columns.priors)
        )
        assert np.abs(record.columns.best_child_value).max() <= 1


async def test_equal_seeds_give_equal_games() -> None:
    game = "connect_four"
    games = [
        await played(
            game,
            (SearchPlayer(game, HashPredictor(game), search(16), 64), RandomPlayer(seed)),
            draw_openings(game, 2, 2, seed=3),
        )
        for seed in (1, 1, 2)
    ]
    moves = [{place: board.actions for place, board in each.items()} for each in games]
    assert moves[0] == moves[1] != moves[2]


async def test_no_round_begins_while_it_may_not() -> None:
    go, kept = asyncio.Event(), asyncio.Event()

    async def keep(finished: list[Board]) -> None:
        kept.set()

    playing = asyncio.create_task(
        duel("tic_tac_toe", [[]], [(0, 0)], (RandomPlayer(1), RandomPlayer(2)), keep, go)
    )
    for _ in range(20):
        await asyncio.sleep(0)
    assert not kept.is_set()
    go.set()
    await playing
    assert kept.is_set()


async def test_the_two_colours_are_played_apart() -> None:
    """One colour's boards are asked for while the other's wait for their slower player."""

    class Slow(RandomPlayer):
        def __init__(self) -> None:
            super().__init__(1)
            self.asked: list[list[tuple[int, int]]] = []
            self.together = 0
            self.out = 0

        async def choose(self, boards: Sequence[Board]) -> list[Answer]:
            self.asked.append([board.place for board in boards])
            self.out += 1
            self.together = max(self.together, self.out)
            for _ in range(10):
                await asyncio.sleep(0)
            self.out -= 1
            return await super().choose(boards)

    slow = Slow()
    openings = draw_openings("connect_four", 2, 3, seed=1)
    await played("connect_four", (slow, RandomPlayer(2)), openings)
    assert slow.together == 2
    assert all(len({color for _, color in places}) == 1 for places in slow.asked)
    assert slow.asked[0] == [(opening, 0) for opening in range(3)]


async def test_programs_of_all_players_share_the_turns_to_think() -> None:
    class Turns(asyncio.Semaphore):
        taken = 0

        def release(self) -> None:
            self.taken += 1
            super().release()

    turns = Turns(1)
    command = [sys.executable, str(ENGINE), "plays"]
    async with AsyncExitStack() as processes:
        players = [OutsidePlayer(command, ["clear_board"], processes, turns) for _ in range(2)]
        boards = [Board.after("tic_tac_toe", [], (opening, 0)) for opening in range(2)]
        answers = await asyncio.gather(*(player.choose(boards) for player in players))
    assert all(isinstance(answer, Ply) for both in answers for answer in both)
    assert turns.taken == 4


@pytest.mark.parametrize(
    ("habit", "remark"),
    [
        ("plays", None),
        ("resigns", None),
        ("cheats", "forfeit at ply 1: a1 is illegal here"),
        ("refuses", "forfeit at ply 0: refused a1: illegal move"),
    ],
)
async def test_a_program_from_outside(habit: str, remark: str | None) -> None:
    """The opening is the corner a1; the other player is chance."""
    command = [sys.executable, str(ENGINE), habit]
    async with AsyncExitStack() as processes:
        outside = OutsidePlayer(command, ["clear_board"], processes, asyncio.Semaphore(2))
        boards = await played("tic_tac_toe", (RandomPlayer(1), outside), [[0]])
    for board in boards.values():
        assert board.ending is not None
        if habit == "plays":
            assert (board.ending.reason, board.remark) == ("rules", None)
            continue
        assert board.ending.reason == "resign"
        assert board.side == 1
        assert board.ending.result == (-1 if board.state.to_play == 0 else 1)
        if remark is None:
            assert board.remark is None
        elif board.place == (0, 0):  # the program answers the opening
            assert board.remark is not None
            assert board.remark.startswith(remark)


@pytest.mark.parametrize("habit", ["resigns", "babbles"])
async def test_no_game_without_an_action_is_given_up(habit: str) -> None:
    """There is no record of it, so such a program plays nothing."""
    command = [sys.executable, str(ENGINE), habit]
    async with AsyncExitStack() as processes:
        outside = OutsidePlayer(command, ["clear_board"], processes, asyncio.Semaphore(2))
        with pytest.raises(GtpError, match="before the first action"):
            await outside.choose([Board.after("tic_tac_toe", [], (0, 1))])


def left(folder: Path) -> int:
    """How many programs have taken their leave."""
    return len(list(folder.glob("*.gone")))


async def test_programs_are_ended_together(tmp_path: Path) -> None:
    """Each takes its leave only when the other was told to as well."""
    script = (
        'i=0; while [ $i -lt 3 ]; do read line; printf "=\\n\\n"; i=$((i+1)); done; '
        f"read quit; touch {tmp_path}/$$.told; "
        f'while [ "$(ls {tmp_path} | grep -c told)" -lt 2 ]; do sleep 0.01; done; '
        f"touch {tmp_path}/$$.gone"
    )
    async with AsyncExitStack() as processes:
        outside = OutsidePlayer(
            ["sh", "-c", script], ["clear_board"], processes, asyncio.Semaphore(2)
        )
        boards = [Board.after("tic_tac_toe", [4], (opening, 0)) for opening in range(2)]
        assert all(isinstance(answer, GaveUp) for answer in await outside.choose(boards))
    assert left(tmp_path) == 2


@pytest.mark.skipif(shutil.which("gnugo") is None, reason="gnugo is not installed")
async def test_gnu_go_plays_whole_games_by_our_rules() -> None:
    game = "go(size=5,komi=0.5,suicide=true)"
    async with AsyncExitStack() as processes:
        thinking = asyncio.Semaphore(2)
        players = (RandomPlayer(5), anchor_player("gnugo:1", game, 1, processes, thinking))
        boards = await played(game, players, draw_openings(game, 2, 2, seed=1))
    assert points(boards) < 0.5
    assert [board.remark for board in boards.values()] == [None] * 4
