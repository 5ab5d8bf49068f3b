"""The report at the end of ``zerofleet up``: what was reached, what it cost, what to do now."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from zerofleet.fleet.report import Exam, RunFigures, counted, elo_text, loss_text
from zerofleet.local.data_folder import DataFolder, Usage

_QUERY = "SELECT model, at, against, score_percent, elo FROM promotion_history"


def goal_text(reached: Exam | None, goal: float) -> str:
    """Whether the goal was reached, and by which model."""
    if reached is None:
        return f"\nThe goal, an exam error rate of {goal:.2%}, is not reached yet."
    return (
        f"\nGoal reached: model {reached.version} has an exam error rate of "
        f"{reached.error_rate:.2%} ({reached.errors:,} of {reached.positions:,}, "
        f"at {reached.simulations} simulations)."
    )


def lost_text(games: int, killed: Mapping[str, bool], disk: str | None) -> str:
    """Return which games were not stored, and why; "" if all were.

    Args:
        games: number of finished games that the workers reported as lost.
        killed: workers that had to be killed, and whether they reported that number before.
        disk: that it is full, for a person.
    """
    text = ""
    if games:
        were = "was" if games == 1 else "were"
        why = f": the disk is {disk}" if disk else ", see the logs"
        lost = f"{counted(games, 'finished game')} {were} not stored"
        text += f"\n{lost}, because Postgres did not take them{why}."
    silent = [name for name, has_told in killed.items() if not has_told]
    if silent:
        text += (
            f"\n{_listed(silent)} had to be killed and did not report whether finished games were "
            "lost. The next start resumes the games that were saved."
        )
    if len(silent) < len(killed):
        others = _listed([name for name, has_told in killed.items() if has_told])
        none = "" if games else " No finished game was lost."
        text += (
            f"\n{others} had to be killed while saving unfinished games.{none} The next start "
            "resumes them from where they were last saved."
        )
    return text


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def final_report(
    figures: RunFigures,
    usage: Usage,
    folder: DataFolder,
    *,
    workers: int = 1,
    metrics_port: int | None = None,
) -> str:
    """Return several lines for a person.

    Args:
        figures: of the run.
        usage: its cost so far.
        folder: of the run.
        workers: number of self-play processes that it had.
        metrics_port: the value of --metrics-port.
    """
    lines = ["", *_cost(figures, usage), "", f"page     {page_command(folder)}"]
    if figures.best_version is not None:
        lines += _what_now(figures, folder)
    return "\n".join([*lines, _resume(folder, workers, metrics_port)])


def page_command(folder: DataFolder) -> str:
    """Return the command that shows the page of this run."""
    return f"{_command()} page --data {shlex.quote(str(_short(folder.root)))}"


def _cost(figures: RunFigures, usage: Usage) -> list[str]:
    if figures.games == 0:
        return ["No game was finished."]
    lines = [
        f"{counted(figures.games, 'game')}, {counted(figures.models, 'model')}, "
        f"{figures.promotions} promoted; "
        f"{usage.wall_seconds:.1f} s on the clock and {usage.cpu_seconds:.1f} CPU-seconds "
        "since the first game."
    ]
    if figures.best_version is not None:
        lines.append(
            f"Best: model {figures.best_version}, Elo {elo_text(figures)}; "
            f"loss held out: {loss_text(figures.held_out)}."
        )
    return lines


def _what_now(figures: RunFigures, folder: DataFolder) -> list[str]:
    data = f"--data {shlex.quote(str(_short(folder.root)))}"
    model = _short(folder.models) / folder.run / str(figures.best_version) / "model.onnx"
    lines = [
        f"play     {_command()} play {data}",
        f"query    {_command()} sql {data} -c '{_QUERY}'",
        f"inspect  {_command()} status {data}",
    ]
    if figures.has_exam:
        lines.append(f"exam     {_command()} exam {data} --model all")
    return [*lines, f"model    {model}", f"logs     {_short(folder.logs)}"]


def _resume(folder: DataFolder, workers: int, metrics_port: int | None) -> str:
    root = shlex.quote(str(_short(folder.root)))
    run_file = shlex.quote(str(_short(folder.run_file)))
    resume = f"resume   {_command()} up {run_file} --data {root}"
    if workers > 1:
        resume += f" --workers {workers}"
    if metrics_port is not None:
        resume += f" --metrics-port {metrics_port}"
    return resume


def _command() -> str:
    """What a person types here for this program, so that the lines can be pasted."""
    if shutil.which("zerofleet") is not None:
        return "zerofleet"
    here = Path(sys.executable).parent / "zerofleet"
    return shlex.quote(str(_short(here))) if here.exists() else "zerofleet"


def _short(path: Path) -> Path:
    """Relative to where the person is, if it lies below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
