"""Chess programs as anchors: their options, their faults, and real ones where they are."""

import asyncio
import contextlib
import os
import re
import select
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_match_anchors import played
from zerofleet.config import EngineName, ProcessSettings, check_anchor, run_from_values
from zerofleet.engine_process import EngineError, EngineGoneError
from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.match.anchors import RandomPlayer, anchor_player, why_absent, why_unsuited
from zerofleet.match.play_match import GaveUp, draw_openings
from zerofleet.match.program_players import UciPlayer
from zerofleet.uci.chess_program import UciClient, UciOption

PROGRAM = Path(__file__).with_name("uci_program.py")
CHESS = "chess"


def engine(habit: str, options: str = "nodes=1", file: Path | str = "") -> EngineName:
    found = EngineName.of(f"uci:program?{options}")
    assert found is not None
    words = [sys.executable, str(PROGRAM), habit, str(file)]
    return replace(found, command=shlex.join(words))


def player(
    stack: AsyncExitStack,
    habit: str,
    options: str = "nodes=1",
    file: Path | str = "",
    **more: float,
) -> UciPlayer:
    return UciPlayer(CHESS, engine(habit, options, file), stack, asyncio.Semaphore(2), **more)


def running_groups() -> set[str]:
    """Process groups with a process that runs; a zombie of ours does not."""
    found: set[str] = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if state != "Z":
                found.add(group)
    return found


# ---- names ----


def test_a_name_has_a_program_its_options_and_the_limits_of_a_move() -> None:
    found = EngineName.of("uci:fairy-stockfish?Skill Level=-10&nodes=500&movetime=50&UCI_Elo=1350")
    assert found == EngineName(
        "uci",
        "fairy-stockfish",
        (("Skill Level", "-10"), ("UCI_Elo", "1350")),
        (("nodes", 500), ("movetime", 50)),
    )
    assert EngineName.of("uci:stockfish") == EngineName(
        "uci", "stockfish", (), (("nodes", 10_000),)
    )
    found = EngineName.of("gtp:gnugo --mode gtp --level 5")
    assert found is not None
    assert found.arguments == ["gnugo", "--mode", "gtp", "--level", "5"]
    assert EngineName.of("random") is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("uci:", "is not an anchor: give random, search"),
        ("uci: stockfish", "is not an anchor"),
        ("uci:stock;fish", "is not an anchor"),
        ("uci:stockfish\nquit", "is not an anchor"),
        ("uci:" + "x" * 300, "is not an anchor"),
        ("uci:?nodes=1", "names no program"),
        ("gtp:''", "names no program"),
        ("gtp:gnugo 'a", "no closing quotation"),
        ("uci:stockfish?nodes", "'nodes' is not OPTION=VALUE"),
        ("uci:stockfish?=1", "'=1' is not OPTION=VALUE"),
        ("uci:stockfish?Hash=1&Hash=2", "'Hash' is given twice"),
        ("uci:stockfish?nodes=0", "nodes is '0': give a whole number from 1 to 1,000,000,000"),
        ("uci:stockfish?movetime=1.5", "movetime is '1.5'"),
    ],
)
def test_a_wrong_name_says_what_is_wrong(name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        check_anchor(name)
    assert str(caught.value).isprintable()
    with pytest.raises(ValueError, match=reason):
        run_from_values({"name": "r", "game": CHESS, "rating": {"anchors": [name]}})


@given(st.text(max_size=60), st.sampled_from(["uci:", "gtp:", "uci:a?", ""]))
def test_any_text_is_a_name_or_is_refused(text: str, start: str) -> None:
    refusal = ""
    try:
        check_anchor(start + text)
    except ValueError as error:
        refusal = str(error)
    assert refusal.isprintable()
    if not refusal:
        found = EngineName.of(start + text)
        assert found is None or (found.arguments and text.isascii() and text.isprintable())


# ---- permission ----


def test_a_name_alone_starts_no_program() -> None:
    """A row of the database or a run file may name anything."""
    name = "uci:sh -c 'touch /tmp/x'?nodes=1"
    allowed = ProcessSettings(
        run_file=Path("r"), engines=" stockfish ; gnugo --mode gtp;"
    ).allowed_engines
    assert allowed == {"stockfish", "gnugo --mode gtp"}
    for some in ((), allowed, {"sh"}):
        assert "may not start 'sh -c" in (why_absent(name, CHESS, some) or "")
    assert "may not start 'gnugo --mode gtp --outfile x'" in (
        why_absent("gtp:gnugo --mode gtp --outfile x", "go(size=9)", allowed) or ""
    )
    assert why_absent("uci:sh?Hash=1", CHESS, {"sh"}) is None
    assert why_absent("uci:sh", CHESS, None) is None
    assert "/etc/passwd is no executable file" in (why_absent("uci:/etc/passwd", CHESS, None) or "")
    assert "nowhere is not on PATH" in (why_absent("uci:nowhere", CHESS, {"nowhere"}) or "")


async def test_a_program_that_is_not_allowed_is_refused() -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigError, match="add it to ZEROFLEET_ENGINES"):
            anchor_player("uci:sh", CHESS, 1, 1, stack, asyncio.Semaphore(1), ())
        with pytest.raises(ConfigError, match="there is no anchor 'of another version'"):
            anchor_player("of another version", CHESS, 1, 1, stack, asyncio.Semaphore(1), ())


def test_uci_is_for_chess() -> None:
    assert why_unsuited("uci:stockfish", "connect_four") == (
        "UCI programs play chess, not connect_four"
    )
    assert why_unsuited("uci:stockfish", "chess(history=8)") is None
    assert why_unsuited("gtp:edax -gtp", "othello") is None


# ---- options ----


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("Contempt=1", "has no option 'Contempt': "),
        ("UCI_Elo=1350", "UCI_Elo has no effect alone: add UCI_LimitStrength=true"),
        ("UCI_Elo=1350&UCI_LimitStrength=false", "UCI_Elo has no effect alone"),
        ("Skil Level=1", "did you mean 'Skill Level'?"),
        ("Skill Level=21", "'Skill Level' is 21: give -20 to 20"),
        ("Skill Level=high", "is 'high': give a whole number"),
        ("UCI_LimitStrength=1", "is '1': give true or false"),
        ("Style=Risky", "is 'Risky': give one of Solid, Very Risky"),
        ("Clear Hash=1", "is a button: only numbers"),
        ("Debug Log File=/tmp/log", "is a string: only numbers"),
    ],
)
async def test_an_option_that_cannot_be_set_says_why(options: str, reason: str) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(EngineError) as caught:
            await player(stack, "plays", options).choose((0, 0), [])
    assert reason in str(caught.value)


async def test_options_and_positions_are_told(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    options = "skill level=-10&Style=Very Risky&UCI_LimitStrength=true&nodes=7&movetime=9"
    start = "4k3/8/8/8/8/8/4P3/4K3 w - - 0 1"
    async with AsyncExitStack() as stack:
        outside = player(stack, "plays", options, heard)
        opening = [State(CHESS).string_to_action("e2e4")]
        assert isinstance(await outside.choose((0, 0), opening), int)
        assert isinstance(await outside.choose((1, 0), [], start), int)
    assert heard.read_text().splitlines() == [
        "uci",
        "setoption name Skill Level value -10",
        "setoption name Style value Very Risky",
        "setoption name UCI_LimitStrength value true",
        "isready",
        "ucinewgame",
        "isready",
        "position startpos moves e2e4",
        "go nodes 7 movetime 9",
        "ucinewgame",
        "isready",
        f"position fen {start}",
        "go nodes 7 movetime 9",
        "quit",
    ]


async def test_chess960_needs_the_option(tmp_path: Path) -> None:
    game, heard = "chess(chess960=true)", tmp_path / "heard"
    start = "4k3/8/8/8/8/8/8/R3K2R w HA - 0 1"
    castles = State(game, [], start).string_to_action("e1h1")
    async with AsyncExitStack() as stack:
        thinking = asyncio.Semaphore(1)
        outside = UciPlayer(game, engine("960", file=heard), stack, thinking)
        assert isinstance(await outside.choose((0, 0), [castles], start), int)
        with pytest.raises(EngineError, match="has no option 'UCI_Chess960'"):
            await UciPlayer(game, engine("plays"), stack, thinking).choose((0, 0), [])
    assert f"position fen {start} moves e1h1" in heard.read_text().splitlines()


@given(st.text(max_size=80) | st.from_regex(r"option name [ -~]{0,40} type [a-z]{4,6}[ -~]*"))
def test_any_line_of_an_engine_is_read(line: str) -> None:
    option = UciOption.of(line)
    if option is not None:
        for value in ("true", "-1", "Solid", ""):
            reason = option.why_not(value)
            assert reason is None or option.kind


LINES = st.sampled_from(
    [
        *(b"uciok", b"readyok", b"bestmove e2e4 ponder e7e5", b"bestmove", b"info depth 1"),
        *(b"option name Hash type spin default x min y max z", b"option name type spin"),
    ]
)


class Recorded(UciClient):
    """A client of a program whose output is known."""

    def __init__(self, output: bytes) -> None:
        super().__init__(["program"])
        self._output = asyncio.StreamReader()
        self._output.feed_data(output)
        self._output.feed_eof()

    @contextlib.asynccontextmanager
    async def answer_to(
        self, command: str, *, seconds: float | None = None
    ) -> AsyncGenerator[asyncio.StreamReader]:
        try:
            yield self._output
        except asyncio.IncompleteReadError as error:
            raise EngineGoneError("ended") from error


@given(st.lists(LINES | st.binary(max_size=30)))
async def test_whatever_an_engine_writes_it_has_a_move_or_is_given_up(lines: list[bytes]) -> None:
    client = Recorded(b"".join(line + b"\n" for line in lines))
    reason, move = "", ""
    try:
        await client.prepare([("Hash", "1")])
        move = await client.best_move("startpos", "nodes 1", 1.0)
    except EngineError as error:
        reason = str(error)
    assert reason.isprintable()
    assert len(move.split()) <= 1


# ---- games, and faults ----


async def test_a_few_processes_play_all_games(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    async with AsyncExitStack() as stack:
        outside = player(stack, "plays", file=heard)
        games = await played(
            CHESS, (RandomPlayer(CHESS, 1), outside), draw_openings(CHESS, 2, 3, 1)
        )
    assert [game.remark for game in games.values()] == [None] * 6
    assert {game.record.reason for game in games.values()} == {"rules"}
    assert 1 <= heard.read_text().splitlines().count("uci") <= 2


@pytest.mark.parametrize(
    ("habit", "remark"),
    [
        ("cheats", "'e2e5' is not a (legal )?move"),
        ("babbles", "'hello' is not a move"),
        ("none", r"'\(none\)' is not a move"),
        ("null", "'0000' is not a move"),
        ("silent", "'' is not a move"),
        ("control", r"'\\x1b\[2Jxxx"),
    ],
)
async def test_a_wrong_move_forfeits_the_game_alone(habit: str, remark: str) -> None:
    openings = draw_openings(CHESS, 3, 2, 1)
    async with AsyncExitStack() as stack:
        games = await played(CHESS, (RandomPlayer(CHESS, 1), player(stack, habit)), openings)
    for (_, colour), game in games.items():
        assert game.record.reason == "resign"
        assert game.record.result == (1 if colour == 0 else -1)
        assert game.remark is not None
        assert game.remark.startswith("forfeit at ply ")
        assert game.remark.isprintable()
        assert len(game.remark) < 300
    assert any(re.search(remark, game.remark or "") for game in games.values())


async def test_no_game_without_an_action_is_forfeited() -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(EngineError, match="lost before the first action: forfeit at ply 0"):
            await player(stack, "babbles").choose((0, 1), [])


async def test_a_program_that_ends_is_started_once_more(tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    async with AsyncExitStack() as stack:
        outside = player(stack, "dies once", file=heard)
        games = await played(
            CHESS, (RandomPlayer(CHESS, 1), outside), draw_openings(CHESS, 2, 1, 1)
        )
    assert [game.remark for game in games.values()] == [None] * 2
    assert heard.with_suffix(".died").exists()


@pytest.mark.parametrize(
    ("uci", "go", "reason"),
    [
        ("echo uciok", "exit", "ended during 'go nodes 10000'"),
        ("echo uciok", "sleep 600", "has not answered 'go nodes 10000' in 3 s"),
        ("echo uciok", "yes info string no end", "has not answered 'go nodes 10000' in 3 s"),
        (
            "echo uciok",
            "yes | tr -d '\\n'",
            "answers 'go nodes 10000' with a line that is too long",
        ),
        ("sleep 600", "exit", "has not answered 'uci' in 3 s"),
    ],
)
async def test_a_program_that_cannot_go_on_ends_the_match_with_its_reason(
    tmp_path: Path, uci: str, go: str, reason: str
) -> None:
    """It is killed with everything that it has started."""
    script = (
        f"echo $$ >> {tmp_path}/pids; while read line; do case $line in uci) {uci};; "
        f"isready) echo readyok;; go*) {go};; esac; done"
    )
    found = EngineName("uci", shlex.join(["sh", "-c", script]), (), (("nodes", 10_000),))
    openings = draw_openings(CHESS, 2, 1, 1)
    async with asyncio.timeout(120):
        async with AsyncExitStack() as stack:
            outside = UciPlayer(CHESS, found, stack, asyncio.Semaphore(2), timeout=3.0)
            with pytest.raises(EngineGoneError) as caught:
                await played(CHESS, (RandomPlayer(CHESS, 1), outside), openings)
    assert reason in str(caught.value)
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == (2 if uci == "echo uciok" else 1)
    async with asyncio.timeout(60):  # the kernel ends the rest of a killed group by and by
        while running_groups() & set(pids):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_program_that_is_not_there() -> None:
    found = EngineName.of("uci:nowhere/engine")
    assert found is not None
    async with AsyncExitStack() as stack:
        outside = UciPlayer(CHESS, found, stack, asyncio.Semaphore(1))
        with pytest.raises(EngineGoneError, match="cannot start nowhere/engine: there is no such"):
            await outside.choose((0, 0), [])


def test_a_program_dies_with_us() -> None:
    """Killed we can end nothing, and a program that hangs does not see the end of its input."""
    ours = (
        "import asyncio, sys\n"
        "from zerofleet.engine_process import EngineProcess\n"
        "async def main():\n"
        "    process = EngineProcess(['sleep', '600'])\n"
        "    await process.start()\n"
        "    print(process._process.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", ours], stdout=subprocess.PIPE, text=True) as we:
        assert we.stdout is not None
        pid = int(we.stdout.readline())
        descriptor = os.pidfd_open(pid)
        we.kill()
    try:
        assert select.select([descriptor], [], [], 60)[0], "the program outlives us"
    finally:
        os.close(descriptor)


async def test_our_settings_are_not_the_program_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have a URL with a password."""
    monkeypatch.setenv("ZEROFLEET_DATABASE_URL", "postgresql://secret@host/name")
    monkeypatch.setenv("OTHER", "seen")
    script = 'read line; echo "$OTHER$ZEROFLEET_DATABASE_URL"; echo uciok; cat'
    async with UciClient(["sh", "-c", script]) as client, client.answer_to("uci") as stream:
        assert (await stream.readline()).decode().strip() == "seen"
        await stream.readline()


# ---- real programs ----


def real(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(program) is None,
        reason=f"needs {program} on PATH (Debian: apt-get install {program})",
    )


@pytest.mark.parametrize(
    ("name", "game"),
    [
        pytest.param(
            "uci:stockfish?UCI_LimitStrength=true&UCI_Elo=1350&nodes=300",
            CHESS,
            marks=real("stockfish"),
        ),
        pytest.param("uci:stockfish?nodes=200", "chess(chess960=true)", marks=real("stockfish")),
        pytest.param(
            "uci:fairy-stockfish?Skill Level=5&nodes=300", CHESS, marks=real("fairy-stockfish")
        ),
    ],
)
async def test_real_programs_beat_chance_by_our_rules(name: str, game: str) -> None:
    openings: Sequence[list[int]] = draw_openings(game, 2, 1, seed=1)
    async with AsyncExitStack() as stack:
        outside = anchor_player(name, game, 1, 1, stack, asyncio.Semaphore(2), None)
        games = await played(game, (RandomPlayer(game, 1), outside), list(openings))
    assert [each.remark for each in games.values()] == [None] * 2
    assert all(each.record.reason in ("rules", "length") for each in games.values())
    for (_, colour), each in games.items():
        assert (each.record.result or 0) * (1 - 2 * colour) <= 0


@real("gnugo")
async def test_gnu_go_as_a_command() -> None:
    game = "go(size=5,komi=0.5,suicide=false)"
    name = "gtp:gnugo --mode gtp --level 1 --chinese-rules --capture-all-dead --positional-superko"
    async with AsyncExitStack() as stack:
        outside = anchor_player(name, game, 1, 1, stack, asyncio.Semaphore(2), None)
        games = await played(game, (RandomPlayer(game, 5), outside), draw_openings(game, 2, 1, 1))
    assert [each.remark for each in games.values()] == [None] * 2


async def test_a_forfeit_is_an_answer() -> None:
    async with AsyncExitStack() as stack:
        opening = [State(CHESS).string_to_action("e2e4")]
        assert isinstance(await player(stack, "babbles").choose((0, 0), opening), GaveUp)
