"""Run files load, and mistakes in one are refused."""

import re
import tomllib
from pathlib import Path

import pytest

from zerofleet import games
from zerofleet.config import RunConfig, load_run, run_from_values
from zerofleet.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
RUN = run_from_values({"name": "a", "game": "othello", "goal": {"exam_error_rate": 0}})
RUNS = sorted((ROOT / "runs").glob("*.toml"))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_every_run_file_loads_and_names_a_game_that_exists(path: Path) -> None:
    run = load_run(path)
    assert games.spec(run.game.name).num_actions > 1


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_every_run_file_loads_without_its_preset(path: Path) -> None:
    values = tomllib.loads(path.read_text()) | {"preset": "plain"}
    assert run_from_values(values).preset == "plain"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "a"\n[game]\nname = "tic_tac_toe"\n[serach]\n', "did you mean 'search'"),
        (
            'name = "a"\n[game]\nname = "tic_tac_toe"\n[search]\nc_put = 1',
            "did you mean 'search.c_puct'",
        ),
        (
            'name = "a"\n[game]\nname = "tic_tac_toe"\n[search]\nnum_simulations = 0',
            "num_simulations = 0",
        ),
        ('name = "a"', "the key 'game' is missing"),
        ("name = ", "is not a TOML file"),
        ('name = "a b"\n[game]\nname = "tic_tac_toe"', "letters, digits"),
        (
            'name = "a"\n[game]\nname = "tic_tac_toe"\n[trainer]\nlearning_rate = [0.1, 0.01]',
            "exactly one rate more than steps",
        ),
        (
            'name = "a"\n[game]\nname = "tic_tac_toe"\n'
            "[trainer]\nlearning_rate = [0.1, 0.01, 0.001]\n"
            "learning_rate_steps = [600, 400]",
            "each must be greater than the one before",
        ),
        (
            'name = "a"\n[game]\nname = "tic_tac_toe"\n[selfplay]\nmax_ahead_positions = 1000',
            "max_ahead_positions = 1000 would pause play before training can start: give 2000",
        ),
        (
            'name = "a"\n[game]\nname = "tic_tac_toe"\n[selfplay]\ntemperature_moves = 6\n'
            "temperature_halflife = 8",
            "temperature_moves = 6 has no effect with selfplay.temperature_halflife = 8",
        ),
        (
            'name = "a"\n[game]\nname = "tic_tac_toe"\n[trainer]\nwarmup_samples = -1',
            "trainer.warmup_samples = -1",
        ),
        (
            'name = "a"\n[game]\nname = "tic_tac_toe"\n[precision]\nvariants = ["int4"]',
            "precision.variants.0 = 'int4': Input should be 'auto', 'int8' or 'fp16'",
        ),
        (
            'name = "a"\n[game]\nname = "tic_tac_toe"\n[precision]\nvariants = ["int8", "int8"]',
            "name each precision once",
        ),
        (
            'name = "a"\n[game]\nname = "tic_tac_toe"\n[rating]\nanchors = ["gnugo:11"]',
            "'gnugo:11' is not an anchor: give random, search, gnugo:1 to gnugo:10, uci:",
        ),
    ],
)
def test_bad_run_files_get_one_line_that_helps(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_run(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_which_presets_publish_in_8_bits() -> None:
    game = {"name": "a", "game": "tic_tac_toe"}
    wanted: dict[str | None, tuple[str, ...]] = {None: ("auto",), "agz": (), "plain": ()}
    for preset, variants in wanted.items():
        assert run_from_values({**game, "preset": preset}).precision.variants == variants
    small = load_run(ROOT / "runs" / "tictactoe.toml")
    assert small.preset is None
    assert small.precision.variants == ()


def test_the_environment_wins_over_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ZEROFLEET_SET", "search.num_simulations=7")
    assert load_run(RUNS[0]).search.num_simulations == 7


def test_a_game_in_the_environment_may_be_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("go(size=9)", '"go(size=9)"', '{"name": "go(size=9)"}'):
        monkeypatch.setenv("ZEROFLEET_SET", f"game={name}")
        assert load_run(RUNS[0]).game.name == "go(size=9)"


@pytest.mark.parametrize("page", ["tuning", "gpu"])
def test_the_keys_that_a_guide_names_exist(page: str) -> None:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    sections = "|".join(RunConfig.model_fields)
    named = set(re.findall(rf"`((?:{sections})\.[a-z_]+)[^`]*`", prose))
    for key in named:
        section, name = key.split(".")
        model = type(getattr(RUN, section))
        assert name in model.model_fields, key
    assert len(named) > 5


def test_the_recipes_of_the_tuning_guide_are_run_files() -> None:
    text = (ROOT / "docs" / "how-to" / "tuning.md").read_text(encoding="utf-8")
    recipes = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    for recipe in recipes:
        run_from_values({"name": "a", "game": "othello"} | tomllib.loads(recipe))
    assert len(recipes) >= 3
