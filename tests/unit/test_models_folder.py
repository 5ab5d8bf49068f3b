"""The model folder: names are hashes, damage is noticed, Triton finds its entries."""

import hashlib
import resource
import stat
from pathlib import Path

import numpy as np
import pytest

from zerofleet.errors import (
    ConfigError,
    IncompatibleModelError,
    ModelNotFoundError,
    StoreUnavailableError,
)
from zerofleet.models.folder import ModelFolder
from zerofleet.models.graph import Shape

CONTENT = np.random.default_rng(0).bytes(5_000)


def nobody_asks(sha256: str) -> bool:
    raise AssertionError(f"{sha256} was not announced")


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    return ModelFolder(tmp_path / "models", "run")


def test_published_bytes_come_back(folder: ModelFolder) -> None:
    staged = folder.stage(CONTENT)
    assert staged.sha256 == hashlib.sha256(CONTENT).hexdigest()
    path = folder.publish(staged)
    assert path == folder.path(staged.sha256)
    assert path.parent == folder.root / "blobs"
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    assert folder.read_verified(staged.sha256) == CONTENT
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_the_same_bytes_may_be_published_again(folder: ModelFolder) -> None:
    paths = [folder.publish(folder.stage(CONTENT)) for _ in range(2)]
    assert paths[0] == paths[1]
    assert paths[0].read_bytes() == CONTENT


def test_triton_repository(folder: ModelFolder) -> None:
    staged = folder.stage(CONTENT)
    path = folder.publish(staged)
    for _ in range(2):  # entering it again changes nothing
        entry = folder.expose(staged.sha256, 3, Shape(16, 7))
        assert entry == folder.root / "run" / "3" / "model.onnx"
        assert entry.samefile(path)
        assert [file.name for file in entry.parent.iterdir()] == ["model.onnx"]
    config = (folder.root / "run" / "config.pbtxt").read_text()
    assert 'name: "run"' in config
    assert "dims: [ 16 ]" in config
    assert "dims: [ 7 ]" in config


def test_a_version_cut_off_before_its_row_is_replaced(folder: ModelFolder) -> None:
    for content in (b"first", b"second"):
        staged = folder.stage(content)
        folder.publish(staged)
        entry = folder.expose(staged.sha256, 1, Shape(4, 9))
    assert entry.read_bytes() == b"second"


def test_every_truncation_is_refused(folder: ModelFolder) -> None:
    path = folder.publish(folder.stage(CONTENT))
    sha256 = path.stem
    path.chmod(0o644)
    for part in range(64):
        path.write_bytes(CONTENT[: len(CONTENT) * part // 64])
        with pytest.raises(IncompatibleModelError, match="damaged"):
            folder.read_verified(sha256)
    path.write_bytes(CONTENT + b"\0")
    with pytest.raises(IncompatibleModelError, match="damaged"):
        folder.read_verified(sha256)


def test_every_flipped_bit_is_refused(folder: ModelFolder) -> None:
    path = folder.publish(folder.stage(CONTENT))
    path.chmod(0o644)
    generator = np.random.default_rng(1)
    for bit in generator.integers(0, 8 * len(CONTENT), 1_000):
        damaged = bytearray(CONTENT)
        damaged[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        with pytest.raises(IncompatibleModelError, match="damaged"):
            folder.read_verified(path.stem)


@pytest.mark.parametrize("name", ["", "x" * 64, "../../../etc/passwd", "A" * 64, "0" * 63])
def test_names_that_are_no_hashes(folder: ModelFolder, name: str) -> None:
    with pytest.raises(ModelNotFoundError):
        folder.read_verified(name)


def test_a_file_that_is_not_there(folder: ModelFolder) -> None:
    with pytest.raises(ModelNotFoundError, match="no model"):
        folder.read_verified("0" * 64)


def test_a_file_that_cannot_be_read_now_is_not_called_damaged(folder: ModelFolder) -> None:
    """Too few descriptors, a disk that fails, a share that went: the next try may read it."""
    path = folder.publish(folder.stage(CONTENT))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(StoreUnavailableError, match=f"cannot read {path}: Too many open files"):
            folder.read_verified(path.stem)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert folder.read_verified(path.stem) == CONTENT


def test_sweep_takes_only_this_runs_leftovers(folder: ModelFolder) -> None:
    other = ModelFolder(folder.root, "other")
    kept = folder.publish(folder.stage(b"kept"))
    folder.expose(kept.stem, 1, Shape(4, 9))
    folder.stage(b"cut off")
    others = other.stage(b"in the making")
    (folder.root / "run" / "1" / ".77.tmp").write_bytes(b"cut off too")
    assert folder.sweep(nobody_asks) == 2
    assert kept.exists()
    assert others.path.exists()
    assert [file.name for file in (folder.root / "run" / "1").iterdir()] == ["model.onnx"]
    assert folder.sweep(nobody_asks) == 0


def test_sweep_spares_a_run_whose_name_begins_alike(folder: ModelFolder) -> None:
    longer = ModelFolder(folder.root, "run-2")
    staged = longer.stage(b"in the making")
    longer.announce(["0" * 64])
    [note] = staged.path.parent.glob("*.names")
    assert folder.sweep(nobody_asks) == 0
    assert staged.path.exists()
    assert note.exists()


def test_sweep_takes_announced_files_that_nobody_recorded(folder: ModelFolder) -> None:
    paths = [folder.publish(folder.stage(content)) for content in (b"recorded", b"forgotten")]
    never_named = "0" * 64
    folder.announce([*(path.stem for path in paths), never_named])
    asked: list[str] = []

    def is_recorded(sha256: str) -> bool:
        asked.append(sha256)
        return sha256 == paths[0].stem

    assert folder.sweep(is_recorded) == 2  # the forgotten file and the note
    assert asked == [path.stem for path in paths]
    assert [path.exists() for path in paths] == [True, False]
    assert [entry.name for entry in paths[0].parent.iterdir()] == [paths[0].name]
    assert folder.sweep(nobody_asks) == 0


def test_a_note_that_a_power_cut_has_damaged_ends_no_sweep(folder: ModelFolder) -> None:
    path = folder.publish(folder.stage(b"forgotten"))
    folder.announce([path.stem])
    [note] = path.parent.glob(".run-*.names")
    note.write_bytes(note.read_bytes() + b"\n" + bytes(60) + b"\xff 0123")
    assert folder.sweep(lambda _: False) == 2
    assert not path.exists()
    assert not note.exists()


def test_a_full_disk_keeps_no_part_of_a_file(folder: ModelFolder) -> None:
    kept = folder.publish(folder.stage(b"kept"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            folder.stage(CONTENT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(kept.parent.iterdir()) == [kept]


def test_a_sweep_that_cannot_ask_takes_nothing(folder: ModelFolder) -> None:
    path = folder.publish(folder.stage(b"perhaps recorded"))
    withdraw = folder.announce([path.stem])
    [note] = path.parent.glob(".run-*.names")

    def away(sha256: str) -> bool:
        raise StoreUnavailableError(f"who knows {sha256}")

    with pytest.raises(StoreUnavailableError):
        folder.sweep(away)
    assert path.exists()
    assert note.exists()
    withdraw()
    assert not note.exists()


def test_sweep_of_a_folder_that_does_not_exist(folder: ModelFolder) -> None:
    assert folder.sweep(nobody_asks) == 0


def test_a_run_cannot_take_the_blobs_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="blobs"):
        ModelFolder(tmp_path, "blobs")
