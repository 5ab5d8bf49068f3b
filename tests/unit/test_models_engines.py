"""The folder of TensorRT's engines does not grow for ever."""

import os
from pathlib import Path

from zerofleet.models.provider import prune_engines


def test_the_newest_engines_stay_and_so_do_the_timings(tmp_path: Path) -> None:
    for age in range(5):
        for kind in ("engine", "profile"):
            path = tmp_path / f"model{age}.{kind}"
            path.touch()
            os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "sm90.timing").touch()
    assert prune_engines(tmp_path, kept=2) == 3
    names = sorted(path.name for path in tmp_path.iterdir())
    kept = ["model0.engine", "model0.profile", "model1.engine", "model1.profile"]
    assert names == [*kept, "sm90.timing"]
    assert prune_engines(tmp_path, kept=2) == 0


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert prune_engines(tmp_path / "engines") == 0


def test_an_engine_that_another_process_removes_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "model0.engine").touch()
    (tmp_path / "gone.engine").symlink_to(tmp_path / "removed")  # listed, and not there any more
    assert prune_engines(tmp_path, kept=1) == 0
    assert (tmp_path / "model0.engine").exists()
