"""The measurements of a GPU: their commands are right, and none hinders the next."""

import importlib
import json
from pathlib import Path

import pytest

from bench import gpu
from bench.gpu import Part, measured, parts, rows_of
from zerofleet.config import load_run
from zerofleet.config.overrides import Overrides

ROOT = Path(__file__).resolve().parents[2]
PARTS = parts(14)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: " ".join(part.command[:4]))
def test_each_part_is_a_command_of_its_benchmark(part: Part) -> None:
    module, *arguments = part.command
    options = importlib.import_module(module).parse(arguments)
    assert options.json
    if module == "bench.loop":
        run = load_run(ROOT / options.run_file, Overrides.read(options.set))
        assert run.trainer.batch_size == 1024


def test_the_parts_fit_into_nine_minutes_with_their_installation() -> None:
    needed = [part for part in PARTS if part.command[0] != "bench.efficiency"]
    assert len(needed) == 6
    assert sum(part.limit for part in needed) <= 450


def test_a_part_that_fails_or_is_too_slow_is_named() -> None:
    failed = measured(Part(("bench.train", "no_such_game"), 60), 60)
    assert failed.rows == []
    assert "no_such_game" in failed.error
    slow = measured(Part(("http.server", "0"), 0.5), 60)
    assert slow.error == "not measured: it took longer than 0 s"
    late = measured(Part(("bench.train", "connect_four"), 60), 3)
    assert (late.seconds, late.error) == (0.0, "not measured: no time left")


def test_all_is_written_as_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ("--network", "1x8", "--batch", "8", "--games", "2")
    lengths = ("--seconds", "0.01", "--blocks", "1", "--json")
    small = Part(("bench.train", "tic_tac_toe", *sizes, *lengths), 120)
    monkeypatch.setattr(gpu, "parts", lambda _: [small])
    gpu.main([str(tmp_path), "--seconds", "120"])
    [part] = json.loads((tmp_path / "gpu.json").read_text())["parts"]
    assert part["error"] == ""
    paths = [row["path"] for row in part["rows"]]
    assert paths[0] == "bare"
    assert {"learner", "trainer"} <= set(paths)
    assert {row["network"] for row in part["rows"]} == {"1x8"}


def test_only_objects_are_rows() -> None:
    assert rows_of('a line\n{"a": 1}\n') == [{"a": 1}]
