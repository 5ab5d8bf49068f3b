"""Where a service finds its run file: the argument, or as in the images the environment."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from zerofleet.config import (
    Overrides,
    ProcessSettings,
    RunConfig,
    load_run,
    read_settings,
    run_file_text,
    run_from_values,
)
from zerofleet.config.overrides import section_of
from zerofleet.config.section import BASIC
from zerofleet.errors import ConfigError


def test_the_argument_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROFLEET_RUN_FILE", "there.toml")
    assert read_settings(ProcessSettings, ["here.toml"]).run_file == Path("here.toml")
    assert read_settings(ProcessSettings, []).run_file == Path("there.toml")


@pytest.mark.parametrize("arguments", [[], ["one.toml", "two.toml"]])
def test_without_a_run_file_it_says_where_to_give_it(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEROFLEET_RUN_FILE", raising=False)
    with pytest.raises(ConfigError, match=r"needs one argument.*ZEROFLEET_RUN_FILE"):
        read_settings(ProcessSettings, arguments)


def test_a_variable_of_no_section_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROFLEET_SERCH__C_PUCT", "9")
    with pytest.raises(ConfigError, match=r"ZEROFLEET_SERCH__C_PUCT.*did you mean 'search'\?"):
        load_run(Path("tictactoe"))


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("retention", "searches_days", float("inf")),
        ("search", "c_puct", float("inf")),
        ("evaluator", "sprt_elo", (float("nan"), 35.0)),
    ],
)
def test_numbers_are_finite(section: str, key: str, value: object) -> None:
    values = {"name": "test", "game": {"name": "tic_tac_toe"}, section: {key: value}}
    with pytest.raises(ValidationError, match="finite number"):
        run_from_values(values)


@pytest.mark.parametrize("key", ["max_disk_gb", "searches_days"])
def test_retention_is_no_more_than_postgres_can_compute_with(key: str) -> None:
    values = {"name": "test", "game": {"name": "tic_tac_toe"}, "retention": {key: 1e300}}
    with pytest.raises(ValidationError, match="less than or equal to"):
        run_from_values(values)


def test_a_seed_has_64_bits() -> None:
    with pytest.raises(ValidationError, match="seed"):
        run_from_values({"name": "test", "game": {"name": "tic_tac_toe"}, "seed": 2**64})


@pytest.mark.parametrize(
    ("section", "key"), [("search", "num_simulations"), ("trainer", "window_games")]
)
def test_a_whole_number_is_no_larger_than_the_core_takes(section: str, key: str) -> None:
    values = {"name": "test", "game": {"name": "tic_tac_toe"}}
    run_from_values({**values, section: {key: 2**31 - 1}})
    with pytest.raises(ValidationError, match="less than or equal to 2147483647"):
        run_from_values({**values, section: {key: 2**31}})
    run_from_values({**values, "trainer": {"budget_samples": 2**40}})


def test_most_keys_are_advanced() -> None:
    """The page lists the basic ones first, so they must stay few."""
    sections = [section_of([name]) for name in RunConfig.model_fields]
    fields = [field for each in sections if each for field in each.model_fields.values()]
    fields = [field for field in fields if not field.exclude]
    basic = [field for field in fields if field.json_schema_extra == BASIC]
    assert 30 <= len(basic) <= 45 < len(fields) <= 131


def test_settings_of_the_variable_are_split_at_commas_outside_brackets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(
        "ZEROFLEET_SET", 'seed=4, rating.anchors=["random","search"],game=go(size=9,komi=7),'
    )
    run = load_run(Path("tictactoe"))
    assert (run.seed, run.rating.anchors) == (4, ("random", "search"))
    assert run.game.name == "go(size=9,komi=7)"


@pytest.mark.parametrize("value", ["puct", '"puct"', "'puct'", " puct ", ' "puct"'])
def test_quotes_and_spaces_around_a_value_are_no_part_of_it(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_run(Path("go9"), Overrides.read([f"search.root={value}"])).search.root == "puct"
    monkeypatch.setenv("ZEROFLEET_SET", f"search.root={value},seed=4")
    run = load_run(Path("go9"))
    assert (run.search.root, run.seed) == ("puct", 4)


def test_an_option_is_stronger_than_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROFLEET_SET", "seed=4,search.c_puct=3")
    run = load_run(Path("tictactoe"), Overrides.read(["seed=5"]))
    assert (run.seed, run.search.c_puct) == (5, 3.0)


def test_an_editors_byte_order_mark_is_no_part_of_the_run_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('name = "a"\ngame = "tic_tac_toe"\n', encoding="utf-8-sig")
    overrides = Overrides.read(["seed=4"])
    run = load_run(path, overrides)
    text = run_file_text(path, run, overrides=overrides)
    path.write_text(text)
    assert load_run(path) == run


def test_a_whole_number_may_be_written_as_a_float(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        'name = "a"\ngame = "tic_tac_toe"\n[trainer]\nwindow_positions = 1e6\n'
        "learning_rate = [1, 0.5]\nlearning_rate_steps = [1e3]\n"
    )
    trainer = load_run(path).trainer
    assert (trainer.window_positions, trainer.learning_rate) == (1_000_000, (1.0, 0.5))
    assert trainer.learning_rate_steps == (1_000,)


def test_texts_of_overrides_become_the_types_of_their_keys() -> None:
    texts = ["search.num_simulations=7", "search.c_puct=2", "resign.enabled=no", "name=12"]
    texts += ["selfplay.fast_simulations=3", "goal.exam_error_rate=0.5"]
    run = load_run(Path("tictactoe"), Overrides.read(texts))
    assert (run.search.num_simulations, run.search.c_puct, run.name) == (7, 2.0, "12")
    assert (run.resign.enabled, run.selfplay.fast_simulations) == (False, 3)
    assert run.goal is not None
    assert run.goal.exam_error_rate == 0.5


def test_a_rule_of_a_named_game_leaves_its_name(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('name = "a"\ngame = "go"\n')
    with pytest.raises(ConfigError, match=r"--set game.size=9: unknown key 'game.size'"):
        load_run(path, Overrides.read(["game.size=9"]))
