"""Checkpoints: a torn one is passed over, and a replaced trainer cannot outrank its successor."""

from pathlib import Path

import pytest
import torch

from zerofleet.errors import ConfigError
from zerofleet.services.trainer.checkpoints import CheckpointFolder, TrainerState

FILES = ["json", "safetensors"]


def state(step: int) -> TrainerState:
    return TrainerState(
        "run",
        "tic_tac_toe",
        seed=1,
        step=step,
        samples=1.5 * step,
        received=2,
        drawn=3,
        next_tx=step,
        seconds=2.5 * step,
    )


def tensors(step: int) -> dict[str, torch.Tensor]:
    return {"network.weight": torch.full((3, 4), float(step)), "network.steps": torch.tensor(step)}


@pytest.fixture
def checkpoints(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "checkpoints" / "run")


def test_what_was_written_comes_back(checkpoints: CheckpointFolder) -> None:
    path = checkpoints.write(state(7), tensors(7), epoch=2)
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.path == path
    assert newest.state == state(7)
    assert newest.tensors.keys() == tensors(7).keys()
    assert all(torch.equal(newest.tensors[name], value) for name, value in tensors(7).items())


def test_lost_weights_are_not_written(checkpoints: CheckpointFolder) -> None:
    """The measurement that notices lost weights tells people to start again."""
    checkpoints.write(state(1), tensors(1), epoch=1)
    lost = tensors(2) | {"network.weight": torch.tensor([1.0, float("nan")])}
    with pytest.raises(ConfigError, match="not finite at step 2"):
        checkpoints.write(state(2), lost, epoch=1)
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.state.step == 1


def test_a_folder_without_checkpoints(checkpoints: CheckpointFolder) -> None:
    assert checkpoints.newest() is None


def test_the_newest_three_are_kept(checkpoints: CheckpointFolder) -> None:
    paths = [checkpoints.write(state(step), tensors(step), epoch=1) for step in range(5)]
    left = sorted(path.name for path in checkpoints.folder.iterdir())
    wanted = [path.with_suffix(f".{kind}").name for path in paths[2:] for kind in FILES]
    assert left == sorted(wanted)


def test_leftovers_of_a_killed_writer_are_removed(checkpoints: CheckpointFolder) -> None:
    checkpoints.write(state(1), tensors(1), epoch=1)
    for name in (
        "checkpoint-000001-0000000002.json.tmp",
        "checkpoint-000001-0000000002.safetensors",
    ):
        (checkpoints.folder / name).write_bytes(b"cut off")
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.state.step == 1
    checkpoints.write(state(3), tensors(3), epoch=1)
    assert len(list(checkpoints.folder.iterdir())) == 4


@pytest.mark.parametrize("kind", FILES)
def test_torn_at_every_sixteenth_falls_back(checkpoints: CheckpointFolder, kind: str) -> None:
    checkpoints.write(state(1), tensors(1), epoch=1)
    path = checkpoints.write(state(2), tensors(2), epoch=1).with_suffix(f".{kind}")
    whole = path.read_bytes()
    for part in range(16):
        path.write_bytes(whole[: len(whole) * part // 16])
        newest = checkpoints.newest()
        assert newest is not None
        assert newest.state.step == 1
    path.unlink()
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.state.step == 1
    path.write_bytes(whole)
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.state.step == 2


@pytest.mark.parametrize("kind", FILES)
def test_every_flipped_bit_falls_back(checkpoints: CheckpointFolder, kind: str) -> None:
    """Or changes nothing that is read, such as the case of a letter in a number's exponent."""
    checkpoints.write(state(1), tensors(1), epoch=1)
    path = checkpoints.write(state(2), tensors(2), epoch=1).with_suffix(f".{kind}")
    whole = path.read_bytes()
    for bit in range(0, 8 * len(whole), 7):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(damaged)
        newest = checkpoints.newest()
        assert newest is not None
        assert newest.state in (state(1), state(2))
        expected = tensors(newest.state.step)
        assert all(torch.equal(newest.tensors[name], value) for name, value in expected.items())


def test_all_torn(checkpoints: CheckpointFolder) -> None:
    for step in range(2):
        checkpoints.write(state(step), tensors(step), epoch=1).write_bytes(b"{")
    assert checkpoints.newest() is None


def test_what_is_not_a_checkpoint_stays(checkpoints: CheckpointFolder) -> None:
    checkpoints.write(state(1), tensors(1), epoch=1)
    for name in ("notes.json", "best-of-may.safetensors"):
        (checkpoints.folder / name).write_bytes(b"somebody's own")
    checkpoints.write(state(2), tensors(2), epoch=1)
    assert len(list(checkpoints.folder.iterdir())) == 6


@pytest.mark.parametrize("suffix", ["safetensors", "safetensors.tmp", "json.tmp"])
def test_a_replaced_trainer_leaves_what_its_successor_is_writing(
    checkpoints: CheckpointFolder, suffix: str
) -> None:
    checkpoints.write(state(100), tensors(100), epoch=1)
    half = checkpoints.folder / f"checkpoint-000002-0000000100.{suffix}"
    half.write_bytes(b"its manifest comes last")
    checkpoints.write(state(900), tensors(900), epoch=1)  # woke up late
    assert half.exists()


def test_a_replaced_trainer_cannot_outrank_its_successor(checkpoints: CheckpointFolder) -> None:
    checkpoints.write(state(100), tensors(100), epoch=1)
    checkpoints.write(state(100), tensors(100), epoch=2)
    checkpoints.write(state(900), tensors(900), epoch=1)  # woke up late
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.path.name.startswith("checkpoint-000002")
