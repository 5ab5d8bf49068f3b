"""Output for a user's mistake: one line that names it, exit status 2, and no traceback."""

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zerofleet.cli import main
from zerofleet.config import load_run
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.processes import free_port

RUNS = Path(__file__).parents[2] / "runs"
TICTACTOE = str(RUNS / "tictactoe.toml")
RUN = '[game]\nname = "tic_tac_toe"\n'

Zerofleet = Callable[..., tuple[int, str]]


@pytest.fixture
def zerofleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Zerofleet:
    """Run a command in an empty folder; its exit status and what it wrote to stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["zerofleet", *arguments])
        with pytest.raises(SystemExit) as leaving:
            main()
        assert isinstance(leaving.value.code, int)
        return leaving.value.code, capsys.readouterr().err

    return run


def complaint(answer: tuple[int, str]) -> str:
    status, errors = answer
    assert status == 2
    assert errors.startswith("zerofleet: ")
    assert errors.count("\n") == 1
    return errors


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read the run file run.toml: No such file"),
        ("name = ", "run.toml is not a TOML file"),
        (RUN, "the key 'name' is missing"),
        ('name = "a"\n[gmae]\nname = "x"', "unknown key 'gmae': did you mean 'game'?"),
        (f'name = "a"\n{RUN}[search]\nnum_simulation = 5', "'search.num_simulations'"),
        (f'name = "a"\n{RUN}[search]\nnum_simulations = 0', "greater than or equal to 1"),
        ('name = "a"\n[game]\nname = "tic_tac_to"', "tic_tac_toe"),
        (f'name = "a"\npreset = ["agz"]\n{RUN}', "run.toml: preset = ['agz']: Input should be"),
        (f'name = "a"\npreset = {{a = 1}}\n{RUN}', "'agz' or 'plain'"),
        (f'name = "a"\npreset = "quick"\n{RUN}', "preset = 'quick': Input should be 'agz'"),
        (
            f'name = "a"\n{RUN}[evaluator]\nsprt_elo = [5, 0]',
            "evaluator.sprt_elo = [5, 0]: the first must be the smaller one",
        ),
    ],
)
def test_run_files(zerofleet: Zerofleet, content: str | None, words: str) -> None:
    if content is not None:
        Path("run.toml").write_text(content)
    assert words in complaint(zerofleet("up", "run.toml"))
    assert not Path("zerofleet-data").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            '[game]\nname = "go"\nsize = 9',
            "unknown key 'game.size': did you mean game = \"go(size=9)\"?",
        ),
        ('[game]\nname = "go(size=9)"\nsuicide = false', 'game = "go(size=9,suicide=false)"?'),
        ('[game]\nname = "go"\nsise = 9', "unknown rule 'sise'; known: size, suicide, komi"),
        ('game = "go"\nsize = 9', "unknown key 'size': did you mean game = \"go(size=9)\"?"),
        ('game = "go"\nnum_simulations = 9', "did you mean 'search.num_simulations', 'evaluator."),
        ('game = "go"\n[trainer]\nlearning_rate = 0.1', "= 0.1: give a list such as [0.12]"),
        ('game = "go"\n[trainer]\noptimizer = []', "optimizer = []: Input should be 'sgd'"),
        ('game = "go"\n[search]\nlearning_rate = 1', "did you mean 'trainer.learning_rate'?"),
        ('game = "go"\n[search]\nwindow_position = 1', "did you mean 'trainer.window_positions'?"),
        (
            'game = "go"\n[network]\nchannels = 100000',
            "channels = 100000: Input should be less than",
        ),
        ('game = "go"\n[network]\nchannels = 4096\nblocks = 500', "memory: lower the largest"),
        (
            'game = "tic_tac_toe"\n[selfplay]\ngames_per_engine = 9000',
            "selfplay.games_per_engine = 9000 is above inference.max_batch_rows = 1024",
        ),
        ('game = "openspiel:chess"\n[network]\npolicy_head = "convolutional"', "take 'dense'"),
    ],
)
def test_what_was_meant_or_does_not_fit(zerofleet: Zerofleet, content: str, words: str) -> None:
    Path("run.toml").write_text(f'name = "a"\n{content}')
    assert words in complaint(zerofleet("up", "run.toml"))
    assert not Path("zerofleet-data").exists()


def test_a_misspelt_section_is_no_rule_of_the_game(zerofleet: Zerofleet) -> None:
    Path("run.toml").write_text('name = "a"\n[game]\nname = "go"\nsize = 9\n[trainr]\nseed = 1')
    _, errors = zerofleet("up", "run.toml")
    assert "unknown key 'game.size': did you mean game = \"go(size=9)\"?\n" in errors
    assert "unknown key 'trainr': did you mean 'trainer'?\n" in errors


def test_all_mistakes_are_told_at_once(zerofleet: Zerofleet) -> None:
    Path("run.toml").write_text(
        'nmae = "a"\ngame = "tic_tac_to"\n'
        "[search]\nc_puct = -1\nnum_simulation = 5\n[trainer]\nbatch_size = 0\n"
    )
    os.environ["ZEROFLEET_SERCH__C_PUCT"] = "1"
    settings = ("nothing", "num_simulations=3", "rating.anchors=random", "seed=-1")
    options = [word for setting in settings for word in ("--set", setting)]
    status, errors = zerofleet("up", "run.toml", *options)
    assert status == 2
    first, *lines = errors.splitlines()
    assert first == "zerofleet: 10 mistakes:"
    for line, words in zip(
        lines,
        (
            "ZEROFLEET_SERCH__C_PUCT: unknown section 'serch'",
            "--set nothing: give KEY=VALUE",
            "--set num_simulations=3: unknown key 'num_simulations': did you mean 'search.num_",
            "--set rating.anchors=random: give JSON",
            "--set seed=-1: Input should be",
            "run.toml: search.c_puct = -1",
            "run.toml: unknown key 'search.num_simulation': did you mean 'search.num_simulations'?",
            "run.toml: trainer.batch_size = 0",
            "run.toml: unknown key 'nmae': did you mean 'name'?",
            "run.toml: unknown game 'tic_tac_to'; did you mean 'tic_tac_toe'?",
        ),
        strict=True,
    ):
        assert line.startswith(f"  {words}")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            'game = "openspiel:chess"\n[network]\nchannels = 100000\n'
            'policy_head = "convolutional"\n'
            "[trainer]\nmin_positions = 5000\nwindow_positions = 4000\nbatch_size = 0\n",
            (
                "run.toml: network.channels = 100000: Input should be less than",
                "run.toml: trainer.batch_size = 0",
                "run.toml: trainer.min_positions = 5000, but trainer.window_positions = 4000",
                "run.toml: network.policy_head = 'convolutional' needs 64 or 65 actions",
            ),
        ),
        (
            'game = "tic_tac_toe"\n'
            "[selfplay]\nmax_ahead_positions = 100\ngames_per_engine = 9000\n"
            "[evaluator]\nsprt_elo = [5, 0]\n",
            (
                "run.toml: evaluator.sprt_elo = [5, 0]: the first must be the smaller one",
                "run.toml: selfplay.max_ahead_positions = 100 would pause play",
                "run.toml: selfplay.games_per_engine = 9000 is above inference.max_batch_rows",
            ),
        ),
        (
            'game = "tic_tac_toe"\n[trainer]\nmin_positions = 5000000\n',
            (
                "run.toml: selfplay.max_ahead_positions = 20000 would pause play",
                "run.toml: trainer.min_positions = 5000000, but trainer.window_positions = 1000000",
            ),
        ),
    ],
)
def test_what_does_not_fit_is_told_beside_what_is_wrong_alone(
    zerofleet: Zerofleet, content: str, expected: tuple[str, ...]
) -> None:
    Path("run.toml").write_text(f'name = "a"\n{content}')
    status, errors = zerofleet("up", "run.toml")
    assert status == 2
    first, *lines = errors.splitlines()
    assert first == f"zerofleet: {len(expected)} mistakes:"
    for line, words in zip(lines, expected, strict=True):
        assert line.startswith(f"  {words}")
    assert not Path("zerofleet-data").exists()


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        # min_positions is given, so play is not paused too early
        (
            "[selfplay]\nmax_ahead_positions = 1000\n"
            "[trainer]\nmin_positions = 500\nlearning_rate = [0.1, 0.2]\n",
            "trainer.learning_rate has 2 values and trainer.learning_rate_steps 0: give exactly",
        ),
        (
            "[selfplay]\nmax_ahead_positions = 1000\n[trainer]\nmin_positoins = 500\n",
            "unknown key 'trainer.min_positoins': did you mean 'trainer.min_positions'?",
        ),
        (
            "[trainer]\nbatch_size = 100000\nsamples_per_position = '8'\n",
            "trainer.samples_per_position = '8': Input should be a valid number",
        ),
        (
            "[trainer]\nbatch_size = 100000\nsamples_per_position = true\n",
            "trainer.samples_per_position = true: Input should be a valid number",
        ),
        (
            "[trainer]\noptimizer = 'sgd'\nlearning_rate = ['x']\n",
            "trainer.learning_rate.0 = 'x': Input should be a valid number",
        ),
        ("[scaling]\nmin_workers = 200\nmax_workers = 0\n", "scaling.max_workers = 0: Input sh"),
        ("trainer = 3\n[selfplay]\nmax_ahead_positions = 1000\n", "trainer = 3: Input should be"),
        (
            "preset = 'palin'\n[trainer]\noptimizer = 'sgd'\n",
            "preset = 'palin': Input should be 'agz' or 'plain'",
        ),
    ],
)
def test_a_mistake_causes_no_other(zerofleet: Zerofleet, content: str, mistake: str) -> None:
    Path("run.toml").write_text(f'name = "a"\ngame = "tic_tac_toe"\n{content}')
    assert f"zerofleet: run.toml: {mistake}" in complaint(zerofleet("up", "run.toml"))


def test_a_mistake_in_an_override_causes_no_other(zerofleet: Zerofleet) -> None:
    Path("run.toml").write_text(f'name = "a"\n{RUN}[selfplay]\nmax_ahead_positions = 1000')
    os.environ["ZEROFLEET_TRAINER__MIN_POSITIONS"] = "500"
    assert "ZEROFLEET_TRAINER__MIN_POSITIONS: keys of" in complaint(zerofleet("up", "run.toml"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            'game = "go"\nsize = 9\nkomi = 7.5\nnum_simulations = 3\n',
            (
                "unknown key 'size': did you mean game = \"go(size=9,komi=7.5)\"?",
                "unknown key 'komi': did you mean game = \"go(size=9,komi=7.5)\"?",
                "unknown key 'num_simulations': did you mean 'search.num_simulations', 'evalu",
            ),
        ),
        (
            '[game]\nname = "go"\nsize = 9\nsuicid = true\n',
            (
                "unknown key 'game.size': did you mean game = \"go(size=9)\"?",
                "unknown key 'game.suicid': the rules of a game are a part of its name, such as",
            ),
        ),
        (
            'game = "go"\nsize = 99\nsead = 3\n',
            (
                "unknown key 'size': the rules of a game are a part of its name, such as go(size",
                "unknown key 'sead': did you mean 'seed'?",
            ),
        ),
    ],
)
def test_rules_of_the_game_among_other_unknown_keys(
    zerofleet: Zerofleet, content: str, expected: tuple[str, ...]
) -> None:
    Path("run.toml").write_text(f'name = "a"\n{content}')
    _, errors = zerofleet("up", "run.toml")
    lines = errors.splitlines()[1:]
    for line, words in zip(lines, expected, strict=True):
        assert line.startswith(f"  run.toml: {words}")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[rating]\nopponents = [-1]", "rating.opponents.0 = -1: Input should be greater than"),
        ("[rating]\nopponents = [5, 0]", "rating.opponents.1 = 0: Input should be greater than"),
        (
            "[trainer]\nlearning_rate = [0.1, 0.01]\nlearning_rate_steps = [-5]",
            "trainer.learning_rate_steps.0 = -5: Input should be greater than or equal to 1",
        ),
        ('[search]\nc_puct = "2"', "search.c_puct = '2': Input should be a valid number"),
        ("[search]\nnum_simulations = true", "num_simulations = true: Input should be a valid i"),
        ('[resign]\nenabled = "yes"', "resign.enabled = 'yes': Input should be a valid boolean"),
        ("[resign]\nenabled = 1", "resign.enabled = 1: Input should be a valid boolean"),
        ('[evaluator]\nsprt_elo = ["0", "35"]', "sprt_elo.0 = '0': Input should be a valid number"),
    ],
)
def test_values_of_another_type(zerofleet: Zerofleet, content: str, words: str) -> None:
    Path("run.toml").write_text(f'name = "a"\n{RUN}{content}')
    assert words in zerofleet("up", "run.toml")[1]


@pytest.mark.parametrize(
    "content",
    [
        f'name = "{"x " * 1000}"\ngame = "tic_tac_toe"\n',
        f'name = "a"\ngame = "{"x " * 1000}"\n',
        f'name = "a"\ngame = "tic_tac_toe"\n[rating]\nanchors = ["{"x " * 1000}"]\n',
        f'name = "a"\ngame = "tic_tac_toe"\n"{"x " * 1000}" = 1\n',
    ],
    ids=["name", "game", "anchor", "key"],
)
def test_a_long_value_is_shortened(zerofleet: Zerofleet, content: str) -> None:
    Path("run.toml").write_text(content)
    assert len(complaint(zerofleet("up", "run.toml"))) < 500


def test_a_run_file_in_another_encoding(zerofleet: Zerofleet) -> None:
    Path("run.toml").write_text(f'name = "a"\n{RUN}[search]\nc_puct = -1', encoding="utf-16")
    words = complaint(zerofleet("up", "run.toml"))
    assert "run.toml is not a TOML file: save it as text in UTF-8" in words


def test_a_run_file_with_a_name_like_it(zerofleet: Zerofleet) -> None:
    asked = str(RUNS / "connect4.toml")
    assert f"did you mean {RUNS / 'connect_four.toml'}?" in complaint(zerofleet("up", asked))


def test_the_name_of_no_run_file(zerofleet: Zerofleet) -> None:
    said = complaint(zerofleet("up", "conect_four"))
    assert "zerofleet comes with chess, chess_gpu, connect_four" in said
    assert not Path("zerofleet-data").exists()


def test_a_run_file_that_zerofleet_comes_with_needs_no_path(zerofleet: Zerofleet) -> None:
    assert "runs/chess.toml has no goal" in complaint(zerofleet("up", "chess", "--until", "goal"))
    Path("chess").write_text("name = 1\ngame = 'tic_tac_toe'")  # one's own comes first
    assert "runs/chess.toml" not in complaint(zerofleet("up", "chess", "--until", "goal"))


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("search", "give KEY=VALUE"),
        ("serach.c_puct=2", "did you mean 'search'?"),
        ("search.cpuct=2", "did you mean 'search.c_puct'?"),
        ("search.c_puct=-1", "-1: Input should be greater than 0"),
        ("rating.anchors=random", 'random: give JSON, such as ["random", "search"]'),
        ("evaluator.sprt_elo=0,5", "0,5: give JSON, such as [0.0, 35.0]"),
        ("search=abc", "give JSON, or one key of it, as --set search.KEY=VALUE"),
        ("search.c_puct.x=1", "'search.c_puct' is a key, not a section: give search.c_puct=VALUE"),
        ("name.x=1", "'name' is a key, not a section: give name=VALUE"),
        ("search.c_pct.x=1", "unknown key 'search.c_pct': did you mean 'search.c_puct'?"),
        ("game=chess5", "unknown game 'chess5'; did you mean 'chess'?"),
        ("game.name=chess5", "unknown game 'chess5'; did you mean 'chess'?"),
        ("game.size=9", "unknown key 'game.size'"),
        ("search.num_simulations=2.5", "Input should be a valid integer"),
        ("resign.enabled=maybe", "Input should be a valid boolean"),
        ('search={"c_puct": "2"}', "search.c_puct = '2': Input should be a valid number"),
        ("selfplay.games_per_engine=9000", "is above inference.max_batch_rows = 1024"),
        ("trainer.window_positions=1500", "but trainer.window_positions = 1500: training could"),
        ("trainer.learning_rate=[0.1,0.2]", "give exactly one rate more than steps"),
        ('search={"c_puct": -1}', "}: search.c_puct = -1: Input should be greater than 0"),
        ("rating.opponents=[1, 0.5]", "rating.opponents.1 = 0.5"),
        ("preset=quick", "'agz' or 'plain'"),
        ("trainer.optimizer=adam", "adam: Input should be 'sgd', 'adamw' or 'muon'"),
        ("trainer.learning_rate=0.1", "0.1: give a list such as [0.12]"),
        ('search.root="pucd"', "Input should be 'puct' or 'gumbel'"),
    ],
)
def test_settings(zerofleet: Zerofleet, setting: str, words: str) -> None:
    answer = complaint(zerofleet("up", TICTACTOE, "--set", setting))
    assert words in answer
    assert f"--set {setting}: " in answer
    assert "ZEROFLEET_" not in answer
    assert "tictactoe.toml" not in answer


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("ZEROFLEET_SET", "search.c_puct=-1", ": search.c_puct=-1: Input should be greater"),
        ("ZEROFLEET_SET", "seed=2,c_puct=1", ": c_puct=1: unknown key 'c_puct': did you mean 'sea"),
        (
            "ZEROFLEET_SET",
            "search=abc",
            ": search=abc: give JSON, or one key of it, as ZEROFLEET_SET=search.KEY=VALUE",
        ),
        (
            "ZEROFLEET_SEARCH__C_PUCT",
            "2",
            ": keys of the run file are given by ZEROFLEET_SET, as ZEROFLEET_SET='search.c_puct=2'",
        ),
        (
            "ZEROFLEET_SEED",
            "2",
            ": keys of the run file are given by ZEROFLEET_SET, as ZEROFLEET_S",
        ),
        (
            "ZEROFLEET_SEARCH__TEMPERATURE",
            "2",
            ": keys of the run file are given by ZEROFLEET_SET, as "
            "ZEROFLEET_SET='selfplay.temperature=2'; 'search.temperature' is 'selfplay.",
        ),
        (
            "ZEROFLEET_INFERENCE__CUDA_GRAPHS",
            "true",
            ": unknown key 'inference.cuda_graphs': the key is gone, because it gained 6%",
        ),
    ],
)
def test_a_mistake_in_the_environment_is_the_variables(
    zerofleet: Zerofleet, variable: str, value: str, words: str
) -> None:
    os.environ[variable] = value
    answer = complaint(zerofleet("up", TICTACTOE, "--set", "search.num_simulations=5"))
    assert f"{variable}{words}" in answer
    assert "--set" not in answer


def test_old_variables_get_one_line(zerofleet: Zerofleet) -> None:
    os.environ |= {
        "ZEROFLEET_RATING__ANCHORS": '["random","search"]',
        "ZEROFLEET_SEARCH__C_PUCT": "2",
        "ZEROFLEET_SEARCH__TEMPERATURE": "1",
        "ZEROFLEET_SEED": "3",
    }
    assert complaint(zerofleet("up", TICTACTOE)) == (
        "zerofleet: ZEROFLEET_RATING__ANCHORS, ZEROFLEET_SEARCH__C_PUCT, "
        "ZEROFLEET_SEARCH__TEMPERATURE, ZEROFLEET_SEED: keys of the run file are given by "
        'ZEROFLEET_SET, as ZEROFLEET_SET=\'rating.anchors=["random","search"],search.c_puct=2,'
        "selfplay.temperature=1,seed=3'; 'search.temperature' is 'selfplay.temperature' now\n"
    )


def test_a_mistake_in_the_file_is_the_files(zerofleet: Zerofleet) -> None:
    Path("run.toml").write_text(f'name = "a"\n{RUN}[search]\nc_puct = -1')
    os.environ["ZEROFLEET_SET"] = 'search={"num_simulations": 5}'
    assert "run.toml: search.c_puct = -1" in complaint(zerofleet("up", "run.toml"))


def test_sgf_options(zerofleet: Zerofleet) -> None:
    status, errors = zerofleet("sgf", TICTACTOE, "--last", "9" * 20)
    assert status == 2
    assert "Invalid value for '--last'" in errors.splitlines()[-1]


@pytest.mark.parametrize("end", ["noon", "0s", "0games", "10", "-5steps", "1d", "5.5steps", ""])
def test_an_end_that_there_is_not(zerofleet: Zerofleet, end: str) -> None:
    status, errors = zerofleet("up", TICTACTOE, "--until", end)
    assert status == 2
    assert "give a time (90s, 10m, 1h30m), 5000steps, 20000games, budget, goal" in errors


def test_a_budget_must_be_stated(zerofleet: Zerofleet) -> None:
    Path("run.toml").write_text(f'name = "a"\n{RUN}')
    words = complaint(zerofleet("up", "run.toml", "--until", "budget"))
    assert "run.toml has no budget: set trainer.budget_minutes or trainer.budget_samples" in words


def test_a_goal_must_be_stated(zerofleet: Zerofleet) -> None:
    Path("run.toml").write_text(f'name = "a"\n{RUN}')
    assert "has no goal" in complaint(zerofleet("up", "run.toml", "--until", "goal"))


def test_a_port_in_use(zerofleet: Zerofleet) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = complaint(zerofleet("up", TICTACTOE, "--port", str(port)))
    assert f"port {port} cannot be used: Address already in use" in words
    assert not Path("zerofleet-data").exists()


def test_one_port_for_two_servers(zerofleet: Zerofleet) -> None:
    port = str(free_port())
    words = complaint(zerofleet("up", TICTACTOE, "--port", port, "--dashboard-port", port))
    assert (
        f"port {port} is for inference (--port) and for the dashboard (--dashboard-port)" in words
    )
    words = complaint(zerofleet("up", TICTACTOE, "--port", port, "--metrics-port", port))
    assert "and for the metrics of trainer (--metrics-port): choose different ports" in words
    assert not Path("zerofleet-data/tictactoe/page.json").exists()


def test_stores_that_do_not_answer(zerofleet: Zerofleet) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    options = ("--redis-url", "redis://127.0.0.1:1/0")
    words = complaint(zerofleet("up", TICTACTOE, "--database-url", nowhere, *options))
    assert "Postgres at 127.0.0.1:1 does not answer" in words
    words = complaint(zerofleet("up", TICTACTOE, "--data", "d", "--database-url", "x", *options))
    assert "not a Postgres URL" in words
    assert "does not answer" in complaint(zerofleet("migrate", "--database-url", nowhere))


def test_a_record_that_is_elsewhere(zerofleet: Zerofleet) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:{}/none"
    options = ("--redis-url", "redis://127.0.0.1:1/0", "--database-url")
    words = complaint(zerofleet("up", TICTACTOE, *options, nowhere.format(1)))
    assert "does not answer" in words
    assert not Path("zerofleet-data").exists()  # an address that never answered is not the record's

    folder = DataFolder.for_run(Path("zerofleet-data/tictactoe"), load_run(Path(TICTACTOE)))
    stores = folder.root / "stores.json"
    stores.write_text(json.dumps({"database_url": nowhere.format(1), "redis_url": None}))
    assert "does not answer" in complaint(zerofleet("up", TICTACTOE))
    words = complaint(zerofleet("up", TICTACTOE, *options, nowhere.format(2)))
    assert "this run's record is at another address" in words


@pytest.mark.parametrize(
    ("game", "options", "words"),
    [
        ("go", (), "perfect play of go is not known: there is no exam, but games against GNU Go"),
        ("breakthrough", (), "perfect play of breakthrough is not known: there is no exam\n"),
        ("go", ("--gnugo-level", "3"), "--gnugo-level 3 needs a number of games: add --gnu"),
    ],
)
def test_an_exam_that_there_is_not(
    zerofleet: Zerofleet, tmp_path: Path, game: str, options: tuple[str, ...], words: str
) -> None:
    (tmp_path / "run.toml").write_text(f'name = "a"\ngame = "{game}"\n')
    folder = DataFolder.for_run(tmp_path / "data", load_run(tmp_path / "run.toml"))
    folder.run_file.write_bytes((tmp_path / "run.toml").read_bytes())
    assert words in complaint(zerofleet("exam", "--data", "data", *options))


@pytest.mark.parametrize("command", ["status", "sql", "play", "exam", "page"])
def test_there_must_be_a_data_folder(zerofleet: Zerofleet, command: str) -> None:
    assert "no data folder under zerofleet-data/" in complaint(zerofleet(command))
    assert "is not a data folder" in complaint(zerofleet(command, "--data", "nothing"))


def test_data_folders_of_others(zerofleet: Zerofleet) -> None:
    marker = Path("data/zerofleet.json")
    marker.parent.mkdir()
    marker.write_text('{"format": 1, "run": "other", "game": "connect_four"}')
    words = complaint(zerofleet("up", TICTACTOE, "--data", "data"))
    assert "belongs to the run 'other' of connect_four, not to 'tictactoe'" in words
    marker.write_text('{"format": 9, "run": "tictactoe", "game": "tic_tac_toe"}')
    assert "newer zerofleet" in complaint(zerofleet("up", TICTACTOE, "--data", "data"))
    assert "newer zerofleet" in complaint(zerofleet("status", "--data", "data"))


def test_a_folder_in_use(zerofleet: Zerofleet) -> None:
    folder = DataFolder.for_run(Path("data"), load_run(Path(TICTACTOE)))
    with folder.hold("up"):
        words = complaint(zerofleet("up", TICTACTOE, "--data", "data"))
    assert f"in use by `zerofleet up` (process {os.getpid()})" in words


BIG = "9" * 5000
NOWHERE = "postgresql://u@127.0.0.1:1/d"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("up", "a" * 300), "File name too long"),
        (("up", TICTACTOE, "--data", "a" * 300), "File name too long"),
        (("status", "--data", "a" * 300), "File name too long"),
        (("up", TICTACTOE, "--data", "a\udcff"), r"a\udcff has a name that is not UTF-8"),
        (("status", "--data", "a\x1b[2Jb\x07"), r"a\x1b[2Jb\x07 is not a data folder"),
        (("up", TICTACTOE, "--set", f"trainer.learning_rate={'[' * 50_000}"), "give JSON"),
        (("up", TICTACTOE, "--set", f"search.num_simulations={BIG}"), "num_simulations=999"),
        (("match", BIG, "random"), "is not a player"),
        (("match", "1", BIG), "is not a player"),
        (("rollback", BIG), "File name too long"),
        (("play", "--address", f"127.0.0.1:{BIG}"), "the highest port is 65535"),
        (("play", "--address", "127.0.0.1:99999999"), "the highest port is 65535"),
        (("gtp", "--address", "127.0.0.1:1\n"), "is not an address: give HOST:PORT"),
        (("gtp", "--address", ":1"), "give HOST:PORT"),
        (("gtp", "--address", "127.0.0.1:\u0661"), "give HOST:PORT"),
        (("migrate", "--database-url", f"{NOWHERE}?password_file=a%00b"), "null byte"),
        (
            ("migrate", "--database-url", NOWHERE, "--password-file", "\udcff"),
            r"read \udcff: No such",
        ),
        (("migrate", "--database-url", f"postgresql://u@127.0.0.1:{BIG}/d"), "give 1 to 65535"),
        (("migrate", "--database-url", "postgresql://u@h/d%00"), "not a Postgres URL"),
    ],
    ids=lambda value: str(value)[:40].encode("ascii", "replace").decode(),
)
def test_texts_that_are_too_long_or_hold_what_none_should(
    zerofleet: Zerofleet, arguments: tuple[str, ...], words: str
) -> None:
    said = complaint(zerofleet(*arguments))
    assert words in said
    assert len(said) < 2000
    assert said.removesuffix("\n").isprintable()


@pytest.mark.parametrize("value", [BIG, "[" * 50_000])
def test_run_files_that_python_does_not_read(zerofleet: Zerofleet, value: str) -> None:
    Path("run.toml").write_text(f'name = "a"\n{RUN}[search]\nnum_simulations = {value}')
    assert "run.toml is not a TOML file" in complaint(zerofleet("up", "run.toml"))


@pytest.mark.parametrize("command", ["play", "gtp"])
def test_an_address_without_a_port(zerofleet: Zerofleet, command: str) -> None:
    words = complaint(zerofleet(command, "--address", "127.0.0.1"))
    assert "--address 127.0.0.1: give HOST:PORT" in words


def test_play_over_an_address_needs_a_game(zerofleet: Zerofleet) -> None:
    both = zerofleet("play", "--address", "127.0.0.1:1", "--data", "zerofleet-data/a")
    assert "are two services: give one" in complaint(both)
    assert "give --game" in complaint(zerofleet("play", "--address", "127.0.0.1:1"))
    words = complaint(zerofleet("play", "--address", "127.0.0.1:1", "--game", "checkers"))
    assert "checkers" in words
    words = complaint(zerofleet("play", "--address", "127.0.0.1:1", "--game", "tic_tac_toe"))
    assert "127.0.0.1:1" in words


@pytest.mark.parametrize("arguments", [("fly",), ("up",), ("up", TICTACTOE, "--until", "noon")])
def test_usage(zerofleet: Zerofleet, arguments: tuple[str, ...]) -> None:
    status, errors = zerofleet(*arguments)
    assert status == 2
    assert "Error: " in errors.splitlines()[-1]


def test_a_class_that_is_no_game_is_noticed_before_anything_starts(zerofleet: Zerofleet) -> None:
    Path("shares_its_board.py").write_text(
        "from examples.domineering import Domineering\n"
        "class Shares(Domineering):\n"
        "    def copy(self):\n"
        "        twin = super().copy()\n"
        "        twin.covered = self.covered\n"
        "        return twin\n"
    )
    Path("run.toml").write_text('name = "mine"\ngame = "python:shares_its_board:Shares"\n')
    words = complaint(zerofleet("up", "run.toml"))
    assert "on a copy changed it: copy() must copy each array and list too" in words
    assert "docs/tutorials/your-own-game.md says what each method does" in words
    assert not Path("zerofleet-data").exists()


def test_a_check_of_a_game_says_what_to_mend_in_one_line(zerofleet: Zerofleet) -> None:
    Path("too_short.py").write_text(
        "from examples.dots_and_boxes import DotsAndBoxes\n"
        "class Short(DotsAndBoxes):\n    max_length = 3\n"
    )
    words = complaint(zerofleet("check-game", "python:too_short:Short"))
    assert "= max_length: raise max_length, or end the game there" in words
    assert "docs/tutorials/your-own-game.md says what each method does" in words
    assert "no module nope" in complaint(zerofleet("check-game", "python:nope:Short"))
    status, errors = zerofleet("check-game", "tic_tac_toe", "--seed", "-1")
    assert status == 2
    assert "Invalid value for '--seed'" in errors
    assert zerofleet("check-game", "tic_tac_toe", "--games", "3") == (0, "")


@pytest.mark.parametrize("command", ["compare", "check-network"])
def test_a_command_that_trains_names_what_to_install(
    zerofleet: Zerofleet, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    module = sys.modules[f"zerofleet.cli.{command.replace('-', '_')}"]
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert "torch is not installed: pip install 'zerofleet[trainer]'" in complaint(
        zerofleet(command, TICTACTOE)
    )


def test_a_comparison_of_no_time_is_refused(zerofleet: Zerofleet) -> None:
    refused = complaint(zerofleet("compare", TICTACTOE, "--cpu-seconds", "0"))
    assert "--cpu-seconds 0: give a number above 0" in refused


def test_a_second_run_of_the_page_is_an_option(zerofleet: Zerofleet) -> None:
    said = complaint(zerofleet("page", TICTACTOE, "other run.toml", "third"))
    assert "page takes one run" in said
    assert "--with 'other run.toml' --with third" in said
