"""Run files of zerofleet 1.0: its kept copies still work, but they are refused as new run files.

of_1_0/NAME.toml is a run file of the released 1.0.0, and of_1_0/NAME.json is the configuration that
1.0.0 stored in Postgres for it.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from zerofleet.config import RunConfig, load_run, run_from_values, stored_run
from zerofleet.config.renamed import GONE, MOVED, OF_1_0, carry_over
from zerofleet.errors import ConfigError
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.start import Start

OF_VERSION_1_0 = Path(__file__).with_name("of_1_0")
RUNS = Path(__file__).parents[2] / "runs"
NAMES = sorted(path.stem for path in OF_VERSION_1_0.glob("*.toml"))
SHIPPED = [name for name in NAMES if not name.startswith("preset")]
ADDED = {
    "network.name": "residual",
    "rating.openings": [],
    "retention.max_disk_gb": 0.0,
    "search.decisive_moves": False,
    "selfplay.restart_share": 0.0,
    "trainer.budget_minutes": 0.0,
    "trainer.least_samples_per_position": None,
    "trainer.soft_policy_weight": 0.0,
}
"""Keys that 1.0 did not have, with the values that match its behavior."""

Values = dict[str, Any]


def flat(values: Values) -> Values:
    """Return every key with its section before the dot, without the keys for format versions."""
    found: Values = {}
    for section, keys in values.items():
        if isinstance(keys, dict):
            found |= {f"{section}.{key}": value for key, value in keys.items()}
        elif section not in ("preset", "format"):
            found[section] = keys
    return found


def of(run: RunConfig) -> Values:
    return flat(run.model_dump(mode="json"))


def stored(name: str) -> Values:
    values: Values = json.loads((OF_VERSION_1_0 / f"{name}.json").read_text())
    return values


def as_1_0_had_it(name: str) -> Values:
    """Return the run's configuration in today's keys."""
    values = flat(stored(name))
    return ADDED | {MOVED.get(key, key): value for key, value in values.items() if key not in GONE}


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def folder(tmp_path: Path, name: str) -> DataFolder:
    """Return a data folder as 1.0 left it."""
    text = (OF_VERSION_1_0 / f"{name}.toml").read_text()
    run = stored_run(stored(name))
    folder = DataFolder.for_run(tmp_path / "data", run)
    folder.run_file.write_text(f"{text}\n[retention]\nsearches_days = 3.0\n")
    return folder


def test_every_run_file_of_1_0_is_here() -> None:
    assert SHIPPED == ["chess", "connect_four", "go19", "go9", "othello", "tictactoe"]
    assert len(NAMES) == 9


def test_a_kept_run_file_means_what_it_meant(folder: DataFolder, name: str) -> None:
    before = folder.run_file.read_bytes()
    run = load_run(folder.run_file)
    assert of(run) == as_1_0_had_it(name) | {"retention.searches_days": 3.0}
    assert folder.run_file.read_bytes() == before  # a command that only reads changes nothing


def test_a_stored_configuration_means_what_it_meant(name: str) -> None:
    assert of(stored_run(stored(name))) == as_1_0_had_it(name)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_configuration_of_today_is_not_carried_over(name: str) -> None:
    run = load_run(RUNS / f"{name}.toml")
    assert stored_run(json.loads(run.model_dump_json())) == run


def test_a_start_rewrites_the_kept_run_file_and_keeps_the_old_one(
    folder: DataFolder, name: str
) -> None:
    before, run = folder.run_file.read_bytes(), load_run(folder.run_file)
    assert folder.is_of_1_0()
    for _ in range(2):  # a second start changes nothing
        with Start(folder.root, run, folder.run_file) as start:
            start.write(run)
            start.succeeded()
        assert not folder.is_of_1_0()
        assert load_run(folder.run_file) == run
        assert (folder.root / OF_1_0).read_bytes() == before
    text = folder.run_file.read_text()
    assert tomllib.loads(text)["format"] == 2
    for line in before.decode().splitlines():
        if line.startswith("#"):
            assert line in text
    assert load_run(folder.root / OF_1_0) == run


def test_a_start_that_fails_leaves_a_folder_of_1_0(folder: DataFolder, name: str) -> None:
    before, run = folder.run_file.read_bytes(), load_run(folder.run_file)

    def start_and_fail() -> None:
        with Start(folder.root, run, folder.run_file) as start:
            start.write(run)
            raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        start_and_fail()
    assert folder.run_file.read_bytes() == before
    assert not (folder.root / OF_1_0).exists()
    assert folder.is_of_1_0()


def test_a_start_that_was_killed_leaves_a_folder_of_1_0(folder: DataFolder, name: str) -> None:
    before, run = folder.run_file.read_bytes(), load_run(folder.run_file)
    start = Start(folder.root, run, folder.run_file).__enter__()
    start.write(run)
    assert (folder.root / OF_1_0).read_bytes() == before
    folder.give_back()  # the next command does this, since the start's own block was killed
    assert folder.run_file.read_bytes() == before
    assert not (folder.root / OF_1_0).exists()
    assert load_run(folder.run_file) == run


def test_the_run_file_of_1_0_is_never_overwritten(folder: DataFolder, name: str) -> None:
    before, run = folder.run_file.read_bytes(), load_run(folder.run_file)
    with Start(folder.root, run, folder.run_file) as start:
        start.write(run)
        start.succeeded()
    ours = 'name = "mine"\ngame = "tic_tac_toe"\n[selfplay]\nengines = 3\n'
    folder.run_file.write_text(ours)  # a run file for the present version needs no format
    mine = load_run(folder.run_file)
    assert (mine.trainer.optimizer, mine.selfplay.engines) == ("muon", 3)
    assert not folder.is_of_1_0()
    folder.keep_run_file(folder.run_file, mine)
    assert folder.run_file.read_text() == f"format = 2\n{ours}"
    assert (folder.root / OF_1_0).read_bytes() == before


def test_a_run_file_with_a_key_of_today_is_not_of_1_0(folder: DataFolder) -> None:
    folder.run_file.write_text(
        'name = "mine"\ngame = "tic_tac_toe"\n[selfplay]\ntemperature_moves = 3\n'
    )
    assert not folder.is_of_1_0()
    assert load_run(folder.run_file).trainer.optimizer == "muon"


def test_what_a_start_of_1_0_had_set_stays(tmp_path: Path) -> None:
    """The kept run file contains the start's options."""
    values = {
        "name": "mine",
        "game": "connect_four",
        "search": {"num_simulations": 9, "temperature_moves": 3, "temperature_halflife": 0},
        "selfplay": {"max_ahead_positions": 70_000},
    }
    assert carry_over(values) == []
    run = run_from_values(values)
    assert (run.search.num_simulations, run.selfplay.temperature_moves) == (9, 3)
    assert run.selfplay.max_ahead_positions == 70_000
    assert (run.search.root, run.selfplay.forced_playouts) == ("puct", 2.0)


@pytest.mark.parametrize("preset", ["agz", "plain"])
def test_a_preset_that_is_still_there_stays(preset: str) -> None:
    values: Values = {"name": "mine", "game": "connect_four", "preset": preset}
    assert carry_over(values) == []
    assert values["preset"] == preset
    assert run_from_values(values).preset == preset


def test_a_learning_rate_of_1_0_stays_one_of_sgd() -> None:
    trainer: Values = {"learning_rate": [0.03]}
    values: Values = {"name": "mine", "game": "connect_four", "trainer": trainer}
    assert carry_over(values) == []
    run = run_from_values(values)
    assert (run.trainer.optimizer, run.trainer.learning_rate) == ("sgd", (0.03,))


@pytest.mark.parametrize(
    ("preset", "rates"),
    [("fast", (0.06,)), ("plain", (0.01, 0.001, 0.0001)), ("agz", (0.01, 0.001, 0.0001))],
)
def test_another_optimizer_of_1_0_keeps_the_learning_rates(
    preset: str, rates: tuple[float, ...]
) -> None:
    values: Values = {
        "name": "mine",
        "game": "connect_four",
        "preset": preset,
        "trainer": {"optimizer": "adamw"},
    }
    assert carry_over(values) == []
    run = run_from_values(values)
    assert (run.trainer.optimizer, run.trainer.learning_rate) == ("adamw", rates)


@pytest.mark.parametrize("path", MOVED)
def test_a_moved_key_is_refused_with_its_new_place(tmp_path: Path, path: str) -> None:
    section, _, key = path.partition(".")
    run_file = tmp_path / "run.toml"
    run_file.write_text(f'name = "mine"\ngame = "tic_tac_toe"\n[{section}]\n{key} = 1\n')
    with pytest.raises(ConfigError) as refused:
        load_run(run_file)
    message = f"{run_file}: unknown key '{path}': it is '{MOVED[path]}' now"
    assert str(refused.value) == message
    assert MOVED[path] in of(run_from_values({"name": "mine", "game": "tic_tac_toe"}))


def test_a_gone_key_is_refused_with_the_reason(tmp_path: Path) -> None:
    for path, (_, reason) in GONE.items():
        section, _, key = path.partition(".")
        run_file = tmp_path / "run.toml"
        run_file.write_text(f'name = "mine"\ngame = "tic_tac_toe"\n[{section}]\n{key} = 1\n')
        with pytest.raises(ConfigError) as refused:
            load_run(run_file)
        message = f"{run_file}: unknown key '{path}': the key is gone, because {reason}"
        assert str(refused.value) == message


def test_a_gone_key_with_another_value_is_named_when_it_is_carried_over() -> None:
    for path, (default, reason) in GONE.items():
        section, _, key = path.partition(".")
        values: Values = {"name": "mine", "game": "tic_tac_toe", section: {key: default}}
        assert carry_over(values) == []
        values[section][key] = "other"
        assert carry_over(values) == [f"{path} = other has no effect any more: {reason}"]
        assert key not in values[section]
