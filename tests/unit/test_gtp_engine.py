"""The engine between a controller, line by line, and a player that answers by rote."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.gtp_session import FirstFree, Session, said
from zerofleet import __version__
from zerofleet.errors import ConfigError, InferenceUnavailableError


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
    assert "? the model supports only komi 7.5" in await said("komi 6.5")
    assert "? komi is 'much'" in await said("komi much")
    assert "? size is '-5'" in await said("boardsize -5")


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
    assert answers[2].startswith("? 'z9' is not a vertex")
    assert answers[3].startswith("? 'x' is not a colour")
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
    assert await said("kgs-time_settings fischer 1 2", "time_settings -1 30 5") == "=\n\n" * 2
    assert await said("time_left b -3 0", "time_left w 1e9 -1") == "=\n\n" * 2


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
        ("1", "w", []),
        ("2", "b", [12]),
        ("3", "b", [12, 25, 18]),
        ("4", "w", [12, 25, 18, 24]),
        ("9", "w", [12, 25, 18, 24]),
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
    assert player.starts == ["X4/1X3/5/5/5 O"]


async def test_a_problem_is_set_up_and_written_again(tmp_path: Path) -> None:
    path, again = tmp_path / "problem.sgf", tmp_path / "again.sgf"
    path.write_text("(;SZ[5]AB[aa:ba]AW[ab][bb]PL[W]C[White to live];W[ca])")
    player = FirstFree()
    text = await said(
        f"loadsgf {path} 1", f"printsgf {again}", "play w c5", "kata-raw-nn 3", player=player
    )
    assert text.count("=") == 4
    assert "AB[aa][ba]" in again.read_text()
    # Stones and the side to move, reflected in both axes.
    assert player.starts == ["-----/-----/-----/---OO/---XX O"]
    await said(f"loadsgf {again}", "genmove w", player=player)
    assert player.starts[1:] == ["XX3/OO3/5/5/5 O"]
    assert player.asked[-1][0] == []


@pytest.mark.parametrize(
    ("komi", "told"),
    [
        ("", []),
        ("KM[7.5]", []),
        ("KM[6.5]", ["the SGF has komi 6.5; the game is loaded with the model's komi, 7.5"]),
        ("KM[0]", ["the SGF has komi 0; "]),
        ("AP[foxwq]KM[650]", ["the SGF has komi 650 (KM[650] is read as 6.5 points: hundredths"]),
        ("KM[3.75]", ["KM[3.75] is read as 7.5 points"]),
        ("KM[six]", ["the SGF has komi six (the SGF has komi 'six': give a multiple of 0.5); "]),
    ],
)
async def test_a_game_with_another_komi_is_loaded_with_the_runs(
    tmp_path: Path, komi: str, told: list[str]
) -> None:
    path = tmp_path / "other.sgf"
    path.write_text(f"(;SZ[5]{komi};B[cc])")
    session = Session(FirstFree())
    await session.run(f"loadsgf {path}", "get_komi", "showboard")
    assert session.text.startswith("=\n\n= 7.5\n\n")
    assert "ply 1" in session.text
    assert len(session.complaints) == len(told)
    for line, words in zip(session.complaints, told, strict=True):
        assert line.startswith(words)


async def test_files_that_cannot_be_loaded(tmp_path: Path) -> None:
    path = tmp_path / "other.sgf"
    path.write_text("(;SZ[9]KM[6.5])")
    assert "? cannot load file: the SGF has board size 9, not 5" in await said(f"loadsgf {path}")
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


def test_other_games_are_refused() -> None:
    with pytest.raises(ConfigError, match="the game is 'othello', not Go"):
        Session(FirstFree(), "othello")


async def loaded(path: str) -> Session:
    """A session in which a file of 5x5 was loaded; its moves are C3 and D4."""
    session = Session(FirstFree())
    for line in (f"loadsgf {path}\n", "printsgf\n", None):
        session.lines.put_nowait(line)
    await session.engine.run(session.lines)
    assert session.text.startswith("=\n\n=")
    assert ";B[cc];W[db]" in session.text.replace("\n", "")
    return session


@pytest.mark.parametrize(
    "name", ["game.sgf", "my game.sgf", "game 2", 'd\'e "f" \\.sgf', "a\udcff"]
)
async def test_a_file_in_any_encoding_and_of_any_name_is_loaded(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes("(;SZ[5]CA[Shift_JIS];B[cc]C[山田桂];W[db])".encode("shift_jis"))
    assert (await loaded(str(path))).complaints == []


async def test_the_komi_of_a_server_is_told_apart_from_the_response(tmp_path: Path) -> None:
    path = tmp_path / "fox.sgf"
    path.write_text("(;SZ[5]KM[375]RU[Chinese]AP[foxwq];B[cc];W[db])")
    assert (await loaded(str(path))).complaints == [
        "KM[375] is read as 7.5 points: hundredths of stones, as Fox writes them"
    ]


LINES = st.text(max_size=20) | st.sampled_from(["9" * 5000, "\0", "'\"\\", "-1", "nan", "b", "a1"])


@given(name=st.sampled_from(sorted(Session(FirstFree()).engine.commands)), words=st.lists(LINES))
@settings(deadline=None)
async def test_any_line_is_answered_in_a_line(name: str, words: list[str]) -> None:
    if name == "printsgf":
        words = []  # which would write files
    session = Session(FirstFree())
    session.lines.put_nowait(f"7 {name} {' '.join(words)}\n")
    session.lines.put_nowait(None)
    await session.engine.run(session.lines)
    assert session.text.startswith(("=7", "?7"))
    assert session.text.endswith("\n\n")
