"""The engine between a controller, line by line, and a player that answers by rote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from zerofleet_core import State, game_spec

from zerofleet import __version__
from zerofleet.errors import ConfigError, InferenceUnavailableError
from zerofleet.gtp.engine import Engine, EngineOptions, analysis_simulations
from zerofleet.rpc.player_backend import (
    PlayerDescription,
    PositionPrediction,
    SearchChild,
    SearchOptions,
    SearchTable,
)

GAME = "go(size=5,komi=7.5,suicide=false)"


class FirstFree:
    """Wants the first legal action; each search shows one table, then is ``complete`` or waits."""

    def __init__(self, *, complete: bool = True) -> None:
        self.asked: list[tuple[list[int], int]] = []
        self.closed = 0
        self.error: Exception | None = None
        self._complete = complete

    async def analyze(
        self, actions: list[int], *, game: str, simulations: int, **_: Any
    ) -> AsyncGenerator[SearchTable]:
        self.asked.append((actions, simulations))
        if self.error is not None:
            raise self.error
        try:
            yield table(game, actions)
            if not self._complete:
                await asyncio.Event().wait()
        finally:
            self.closed += 1

    async def predict(self, actions: list[int], *, game: str, **_: Any) -> PositionPrediction:
        state = State(game, actions)
        legal = state.legal_actions()
        words = tuple(map(state.action_to_string, legal))
        priors = (1 / len(legal),) * len(legal)
        return PositionPrediction("run", 4, state.to_play, 0.5, tuple(legal), words, priors)


def table(game: str, actions: list[int]) -> SearchTable:
    state = State(game, actions)
    best = state.legal_actions()[0]
    name = state.action_to_string(best)
    child = SearchChild(best, name, 3, 0.5, 0.0, (best,))
    return SearchTable("run", 4, state.to_play, 3, 0.0, 0.0, best, name, (child,), True)


def described(game: str = GAME) -> PlayerDescription:
    spec = game_spec(game)
    return PlayerDescription(
        game, spec.num_actions, spec.observation_shape, "run", 4, (3, 4), 100, 20_000
    )


class Session:
    """An engine, and all that it has said."""

    def __init__(self, player: FirstFree, game: str = GAME) -> None:
        self.text = ""
        self.complaints: list[str] = []
        self._spoke = asyncio.Event()
        self.lines: asyncio.Queue[str | None] = asyncio.Queue()
        options = EngineOptions(search=SearchOptions(num_simulations=10))
        self.engine = Engine(
            player,  # type: ignore[arg-type]
            described(game),
            options,
            self._say,
            self.complaints.append,
        )

    def _say(self, text: str) -> None:
        self.text += text
        self._spoke.set()

    async def until(self, text: str) -> None:
        """Wait until the engine has said this."""
        while text not in self.text:
            self._spoke.clear()
            await self._spoke.wait()


async def said(*lines: str, player: FirstFree | None = None) -> str:
    """Everything the engine says to these lines."""
    session = Session(player or FirstFree())
    for line in lines:
        session.lines.put_nowait(f"{line}\n")
    session.lines.put_nowait(None)
    await session.engine.run(session.lines)
    assert session.complaints == []
    return session.text


async def test_administration() -> None:
    assert await said("protocol_version") == "= 2\n\n"
    assert await said("1 name", "2 version") == "=1 zerofleet\n\n=2 " + (
        (await said("2 version")).removeprefix("=2 ")
    )
    version = (await said("version")).split()
    assert int(version[1].split(".")[1]) >= 15  # as Lizzie reads it
    assert version[2:4] == ["zerofleet", f"{__version__},"]
    assert " ".join(version).endswith("run run, model 4")
    assert await said("known_command genmove", "known_command dance") == "= true\n\n= false\n\n"
    assert await said("5 dance") == "?5 unknown command\n\n"
    assert await said("play b") == "? play: missing a required argument: 'vertex'\n\n"
    assert await said("name me") == "? name: too many positional arguments\n\n"


async def test_every_listed_command_is_known() -> None:
    commands = (await said("list_commands")).removeprefix("= ").split()
    assert commands == sorted(commands)
    for name in ("lz-analyze", "kata-genmove_analyze", "reg_genmove", "undo", "quit"):
        assert name in commands
    answers = await said(*(f"known_command {name}" for name in commands))
    assert answers == "= true\n\n" * len(commands)


async def test_nothing_is_answered_after_quit() -> None:
    assert await said("quit", "name") == "=\n\n"


async def test_size_and_komi_are_the_servers() -> None:
    assert await said("boardsize 5", "komi 7.5", "komi 7.50") == "=\n\n" * 3
    assert await said("boardsize 19") == "? unacceptable size\n\n"
    assert "? the model plays with komi 7.5" in await said("komi 6.5")
    assert "? komi is 'much'" in await said("komi much")
    assert "? size is '-5'" in await said("boardsize -5")


async def test_rules_in_katagos_words() -> None:
    ours = (
        '{"hasButton":false,"ko":"POSITIONAL","scoring":"AREA","suicide":false,"tax":"NONE",'
        '"whiteHandicapBonus":"0"}'
    )
    assert await said("get_komi", "kata-get-rules") == f"= 7.5\n\n= {ours}\n\n"
    accepted = (ours, '{"ko": "POSITIONAL"}', "{}")
    assert await said(*(f"kata-set-rules {rules}" for rules in accepted)) == "=\n\n" * 3
    for rules, words in (
        ("tromp-taylor", "the model plays with suicide false, not true"),
        ("japanese", 'the model plays with ko "POSITIONAL", not "SIMPLE"'),
        ("Chinese-KGS", 'the model plays with whiteHandicapBonus "0", not "N"'),
        ("ing", "unknown rules 'ing': give JSON, or one of tromp-taylor, chinese, "),
        ('{"komi": 7}', "unknown rule 'komi': there are hasButton, ko"),
        ("{", "the rules are no JSON"),
    ):
        assert f"? {words}" in await said(f"kata-set-rules {rules}")


async def test_the_simulations_of_a_move_are_a_parameter() -> None:
    player = FirstFree()
    text = await said(
        "kata-get-param maxVisits",
        "kata-set-param maxVisits 25",
        "kata-get-param maxVisits",
        "genmove b",
        "kata-set-param playoutDoublingAdvantage 0.0",
        "kata-get-param playoutDoublingAdvantage",
        player=player,
    )
    assert text == "= 10\n\n=\n\n= 25\n\n= A5\n\n=\n\n= 0\n\n"
    assert player.asked == [([], 25)]
    assert "? maxVisits is 20001: give 1 to 20000" in await said("kata-set-param maxVisits 20001")
    assert "? maxVisits is 'x'" in await said("kata-set-param maxVisits x")
    assert "knows 0 alone" in await said("kata-set-param playoutDoublingAdvantage 1.5")
    assert "? unknown parameter 'cpuct'" in await said("kata-get-param cpuct")


async def test_the_network_without_search_is_seen_through_symmetries() -> None:
    """Black lies at B5; what is asked of the network is turned, and turned back."""
    lines = ("play b b5", "kata-raw-nn 0", "kata-raw-nn all")
    first, everything = (await said(*lines)).split("\n\n")[1:3]
    priors = " ".join(["0.040000"] * 5)
    assert first.splitlines() == [
        "= symmetry 0",
        "whiteWin 0.750000",
        "whiteLoss 0.250000",
        "noResult 0.000000",
        "policy",
        "0.040000 NAN 0.040000 0.040000 0.040000",
        *[priors] * 4,
        "policyPass 0.040000",
    ]
    each = everything.removeprefix("= ").split("symmetry ")[1:]
    assert [text[0] for text in each] == [*"01234567"]
    assert len({text[1:].strip() for text in each}) == 1
    assert "? give a symmetry, 0 to 7, or all" in await said("kata-raw-nn 8")
    assert "? the game is over" in await said("play b pass", "play w pass", "kata-raw-nn 0")


async def test_gogui_is_told_commands_that_there_are() -> None:
    listed = (await said("gogui-analyze_commands")).removeprefix("= ").strip().splitlines()
    for line in listed:
        kind, label, command = line.split("/")
        assert (kind in {"string", "plist", "pstring", "none"}, bool(label)) == (True, True)
        assert await said(f"known_command {command.split()[0]}") == "= true\n\n"


async def test_a_game_of_both_colours() -> None:
    player = FirstFree()
    text = await said("genmove b", "play w b5", "genmove b", "genmove w", player=player)
    assert text == "= A5\n\n=\n\n= C5\n\n= D5\n\n"
    assert [actions for actions, _ in player.asked] == [[], [0, 1], [0, 1, 2]]
    assert player.asked[0][1] == 10


async def test_moves_in_a_row_are_put_after_passes() -> None:
    player = FirstFree()
    text = await said(
        "play b c3",
        "play b d4",
        "genmove w",
        "genmove w",
        "undo",
        "undo",
        "genmove b",
        player=player,
    )
    assert text == "=\n\n=\n\n= A5\n\n= B5\n\n=\n\n=\n\n= A5\n\n"
    asked = [actions for actions, _ in player.asked]
    assert asked[:2] == [[12, 25, 8], [12, 25, 8, 0, 25]]
    # Black moves again: White passes once more.
    assert asked[2] == [12, 25, 8, 25]


async def test_a_pass_is_not_put_in_where_it_ends_the_game() -> None:
    assert "a pass of white would end the game here" in await said("play b pass", "play b c3")
    assert "a pass would end the game here" in await said("play b pass", "genmove b")


async def test_illegal_moves_change_nothing() -> None:
    player = FirstFree()
    text = await said(
        "play b c3", "play w c3", "play w z9", "play x c3", "genmove w", player=player
    )
    answers = text.split("\n\n")
    assert answers[1] == "? illegal move: c3 is taken"
    assert answers[2].startswith("? 'z9' is no vertex")
    assert answers[3].startswith("? 'x' is no colour")
    assert answers[4] == "= A5"
    assert player.asked[0][0] == [12]


async def test_after_the_end_there_are_only_passes() -> None:
    ended = ("play b pass", "play w pass")
    player = FirstFree()
    text = await said(
        *ended, "genmove b", "play w pass", "play b c3", "lz-analyze 1", player=player
    )
    assert text.split("\n\n")[2:6] == [
        "= pass",
        "=",
        "? illegal move: the game is over after 2 plies",
        "? the game is over: undo or clear_board",
    ]
    assert player.asked == []
    assert (await said(*ended, "genmove b", "undo", "undo", "genmove w")).endswith("= A5\n\n")
    assert (await said(*ended, "clear_board", "genmove b")).endswith("= A5\n\n")


async def test_undo_has_an_end() -> None:
    assert "? cannot undo" in await said("undo")


async def test_reg_genmove_does_not_play() -> None:
    assert await said("reg_genmove b", "genmove b") == "= A5\n\n= A5\n\n"


async def test_showboard_is_one_response() -> None:
    text = await said("play b c3", "3 showboard")
    board = text.split("\n\n")[1]
    assert board.startswith("=3\n 5 . . . . .\n")
    assert " 3 . . X . .\n" in board
    assert "O to play" in board


async def test_counting() -> None:
    wall = ("play b a3", "play b b3", "play b c3", "play b d3", "play b e3", "play w a1")
    text = await said(*wall, "final_score", "final_status_list alive", "final_status_list dead")
    score, alive, dead = text.split("\n\n")[-4:-1]
    assert score == "= B+6.5"  # 15 points to 1, komi 7.5
    assert alive == "= A3 B3 C3 D3 E3\nA1"
    assert dead == "="
    assert "? status is 'happy'" in await said("final_status_list happy")


async def test_clocks_are_accepted() -> None:
    assert await said("time_settings 60 30 5", "time_left b 12 0") == "=\n\n=\n\n"
    assert await said("time_settings 0 12.5 1", "time_left w 3.25 0") == "=\n\n=\n\n"
    assert (
        await said("kgs-time_settings none", "kgs-time_settings byoyomi 60 12.5 3") == "=\n\n" * 2
    )
    assert "? system is 'fischer': give none" in await said("kgs-time_settings fischer 1 2")
    assert "? main is '-1'" in await said("time_settings -1 30 5")
    assert "? main is 'long'" in await said("time_settings long 30 5")


async def test_sgf_in_and_out(tmp_path: Path) -> None:
    path = tmp_path / "game.sgf"
    player = FirstFree()
    text = await said("play b c3", "play w d4", f"printsgf {path}", "printsgf", player=player)
    assert path.read_text() in text
    assert await said(f"loadsgf {path}", "genmove b", player=player) == "=\n\n= A5\n\n"
    assert await said(f"loadsgf {path} 2", "genmove w", player=player) == "=\n\n= A5\n\n"
    assert [actions for actions, _ in player.asked] == [[12, 8], [12]]


@pytest.mark.parametrize(
    ("move", "to_play", "actions"),
    [
        ("1", "w", [0, 25, 6]),
        ("2", "b", [0, 25, 6, 12]),
        ("3", "b", [0, 25, 6, 12, 25, 18]),
        ("4", "w", [0, 25, 6, 12, 25, 18, 24]),
        ("9", "w", [0, 25, 6, 12, 25, 18, 24]),
    ],
)
async def test_handicap_stones_and_passes_put_in_are_no_moves_of_a_file(
    tmp_path: Path, move: str, to_play: str, actions: list[int]
) -> None:
    path = tmp_path / "game.sgf"
    path.write_text("(;SZ[5]HA[2]AB[aa][bb];W[cc];W[dd];B[ee])")
    player = FirstFree()
    await said(f"loadsgf {path} {move}", f"genmove {to_play}", player=player)
    assert [asked for asked, _ in player.asked] == [actions]


async def test_files_that_cannot_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "other.sgf"
    path.write_text("(;SZ[5]KM[6.5])")
    assert "? cannot load file: the SGF has komi 6.5" in await said(f"loadsgf {path}")
    assert "? cannot load file" in await said(f"loadsgf {tmp_path / 'none.sgf'}")
    assert "? cannot load file" in await said(f"loadsgf {tmp_path}")


@pytest.mark.parametrize("ending", ["", "name"])
async def test_an_analysis_lasts_until_the_next_line(ending: str) -> None:
    player = FirstFree(complete=False)
    session = Session(player)
    running = asyncio.create_task(session.engine.run(session.lines))
    session.lines.put_nowait("9 lz-analyze w 20\n")
    await session.until("pv A5\n")
    assert session.text == (
        "=9\ninfo move A5 visits 3 winrate 5000 prior 5000 lcb 1253 order 0 pv A5\n"
    )
    assert player.closed == 0
    session.lines.put_nowait(f"{ending}\n")
    session.lines.put_nowait(None)
    await running
    assert session.text.split("pv A5\n")[1] == ("\n= zerofleet\n\n" if ending else "\n")
    assert player.closed == 1
    # White to move: Black passed. As many simulations as the server allows.
    assert player.asked == [([25], 20_000)]


async def test_a_complete_analysis_still_waits_for_a_line() -> None:
    session = Session(FirstFree())
    running = asyncio.create_task(session.engine.run(session.lines))
    session.lines.put_nowait("kata-analyze 20 rootInfo true\n")
    await session.until("rootInfo visits 3 winrate 0.500000\n")
    assert not session.text.endswith("\n\n")
    session.lines.put_nowait("quit\n")
    await running
    assert session.text.endswith("0.500000\n\n=\n\n")


async def test_an_analysis_that_nobody_waits_for_is_answered() -> None:
    assert await said("1 lz-analyze 10", "2 name") == "=1\n\n=2 zerofleet\n\n"


async def test_genmove_with_analysis() -> None:
    assert await said("4 lz-genmove_analyze b 10", "genmove w") == (
        "=4\ninfo move A5 visits 3 winrate 5000 prior 5000 lcb 1253 order 0 pv A5\nplay A5\n\n"
        "= B5\n\n"
    )
    assert "winrate 0.500000" in await said("kata-genmove_analyze 10")


async def test_a_player_that_does_not_answer_is_an_error() -> None:
    player = FirstFree()
    player.error = InferenceUnavailableError("inference at x: gone")
    session = Session(player)
    running = asyncio.create_task(session.engine.run(session.lines))
    session.lines.put_nowait("1 genmove b\n")
    session.lines.put_nowait("2 lz-analyze 10\n")
    await session.until("?2 ")
    player.error = None
    session.lines.put_nowait("3 genmove b\n")
    session.lines.put_nowait(None)
    await running
    assert session.text == "?1 inference at x: gone\n\n?2 inference at x: gone\n\n=3 A5\n\n"


@pytest.mark.parametrize(
    ("game", "simulations"),
    [(GAME, 20_000), ("go(size=9)", 20_000), ("go(size=19)", 13_812)],
)
def test_an_analysis_asks_for_less_on_a_big_board(game: str, simulations: int) -> None:
    assert analysis_simulations(described(game)) == simulations


def test_other_games_are_refused() -> None:
    with pytest.raises(ConfigError, match="the game is 'othello', not Go"):
        Session(FirstFree(), "othello")
