"""The figures for TensorBoard: written where asked for, refused where the package is missing."""

import sys
from pathlib import Path

import pytest

from services.trainer.board import TensorBoard
from zerofleet.errors import ConfigError


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=r"pip install 'zerofleet\[tensorboard\]'"):
        TensorBoard(tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the package's own, at its import
def test_curves_are_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "tensorboard"
    board = TensorBoard(folder)
    board.close()
    assert not folder.exists()
    for step, loss in ((5, 2.0), (10, 1.5)):
        figures = {"train_policy_loss": loss, "held_out_policy_loss": loss + 0.5, "overfit": 0.0}
        board.write(step, figures)
    board.close()
    events = EventAccumulator(str(folder)).Reload()
    assert sorted(events.Tags()["scalars"]) == [
        "policy_loss/held_out",
        "policy_loss/train",
        "trainer/overfit",
    ]
    points = [(point.step, point.value) for point in events.Scalars("policy_loss/train")]
    assert points == [(5, 2.0), (10, 1.5)]
