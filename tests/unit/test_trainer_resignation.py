"""v_resign is computed now and then, with the run file's numbers."""

from datetime import UTC, datetime
from typing import Any

from structlog.testing import capture_logs

from services.trainer.resignation import Calibrator
from zerofleet.config import ResignSection
from zerofleet.database import ResignRow


class Rows:
    def __init__(self, *thresholds: float | None) -> None:
        self.thresholds = iter(thresholds)
        self.asked: list[dict[str, Any]] = []

    def calibrate_resign(self, run: str, **numbers: Any) -> ResignRow:
        self.asked.append({"run": run, **numbers})
        now = datetime.now(UTC)
        return ResignRow(
            run=run,
            at=now,
            threshold=next(self.thresholds),
            games=200,
            would_resign=100,
            wrong=3,
            began_before=now,
            **numbers,
        )


def test_asked_at_once_and_then_every_so_many_seconds() -> None:
    rows = Rows(None, None)
    settings = ResignSection(enabled=True, every_seconds=30, min_games=7, window_games=9)
    calibrator = Calibrator("a", settings, rows)
    assert calibrator.due(1_000.0)
    calibrator.calibrate(1_000.0)
    assert [calibrator.due(now) for now in (1_000.0, 1_029.9, 1_030.0)] == [False, False, True]
    assert rows.asked == [
        {
            "run": "a",
            "false_positive_share": 0.05,
            "min_games": 7,
            "window_games": 9,
            "highest": -0.8,
        }
    ]


def test_never_asked_where_nobody_resigns() -> None:
    assert not Calibrator("a", ResignSection(enabled=False), Rows()).due(1e9)


def test_a_new_threshold_is_said_once() -> None:
    calibrator = Calibrator("a", ResignSection(enabled=True), Rows(None, -0.9, -0.9, -0.8, None))
    said: list[list[float | None]] = []
    for _ in range(5):
        with capture_logs() as logs:
            calibrator.calibrate(0.0)
        said.append([log["threshold"] for log in logs])
    assert said == [[], [-0.9], [], [-0.8], [None]]
