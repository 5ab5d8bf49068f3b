"""The results of a comparison: differences with their standard errors, as JSON and as a table.

Every run takes the same exam, so differences are paired: at each position, the mistake of one run
less the mistake of the first run with the same seed. Write ``d[s, p]`` for them, with seeds ``s``
and positions ``p``.

- The difference is the mean of all ``d``.
- The standard error over positions belongs to the mean over ``p`` of ``mean_s d[s, p]``. It says
  how far the difference would move with other positions, for these trained models.
- The standard error over seeds belongs to the mean over ``s`` of ``mean_p d[s, p]``. It says how
  far the difference would move with other trainings. One seed has none.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from zerofleet import __version__
from zerofleet.comparison.compared_runs import Comparison, seed_words
from zerofleet.comparison.comparison_folder import ExamAnswers, FinishedTraining
from zerofleet.match.play_match import score_interval
from zerofleet.verdict import Pair

_WIDTH = 120  # columns of a table in a file; a terminal has its own
_CLEAR_OVER_POSITIONS = 1.96  # standard errors: two-sided 95% quantile of the normal distribution
# Two-sided 95% quantiles of Student's t for 1, 2, ... degrees of freedom (Student, "The probable
# error of a mean", Biometrika 6, 1908). The last one is for all larger numbers too.
_CLEAR_OVER_SEEDS = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
_KINDS = {
    "lines": "all lines",
    "random": "random play",
    "good": "good play",
    "endgames": "endgames",
    "mates": "forced mates",
}
COSTS: dict[str, Callable[[FinishedTraining], float]] = {
    "games": lambda each: each.games,
    "steps of training": lambda each: each.steps,
    "CPU-seconds, self-play": lambda each: each.cpu["play"],
    "CPU-seconds, training": lambda each: each.cpu["train"],
    "CPU-seconds, export": lambda each: each.cpu["export"],
}
"""Further rows of the table, each the mean over seeds."""


def mean_error(values: NDArray[np.float64] | Sequence[float]) -> float | None:
    """Return the standard error of the mean of values ``[count]``; None for fewer than two."""
    count = len(values)
    return float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else None


def paired_difference(by_seed: NDArray[np.float64]) -> dict[str, Any]:
    """Return the mean difference of two runs with its standard errors.

    Args:
        by_seed: ``[seeds, positions]``, at each position the mistake of one run less the mistake of
            the other.

    Returns:
        ``difference``, ``error_over_positions`` and ``error_over_seeds`` (each None if there is one
        alone), ``by_seed``, and ``reading``.
    """
    seeds = by_seed.mean(axis=1)
    found = {
        "difference": float(by_seed.mean()),
        "error_over_positions": mean_error(by_seed.mean(axis=0)),
        "error_over_seeds": mean_error(seeds),
        "by_seed": seeds.tolist(),
    }
    return found | {"reading": _reading(found, "fewer mistakes", "more mistakes")}


def match_result(scores: Sequence[Sequence[Sequence[float]]]) -> dict[str, Any]:
    """Return the score of a match with its interval and its standard errors.

    Args:
        scores: ``[seeds][pairs][2]``, scores of both games of each pair.
    """
    pairs = [pair for seed in scores for pair in seed]
    complete = [Pair(index, (pair[0], pair[1]), False) for index, pair in enumerate(pairs)]
    seeds = [float(np.mean(seed)) for seed in scores]
    score = float(np.mean(pairs))
    found = {
        "games": 2 * len(pairs),
        "score": score,
        "interval": list(score_interval(complete)),
        "difference": score - 0.5,
        "error_over_positions": mean_error([each.points / 2 for each in complete]),
        "error_over_seeds": mean_error(seeds),
        "by_seed": [seed - 0.5 for seed in seeds],
    }
    return found | {"reading": _reading(found, "weaker", "stronger")}


def _reading(found: dict[str, Any], below: str, above: str) -> str:
    """Return the reading of a difference: clear if both of its 95% intervals exclude zero.

    The interval over seeds is Student's, because its error is from a few seeds. All seeds must
    agree in the sign, and there must be two of them.
    """
    difference, seeds = found["difference"], found["by_seed"]
    if len(seeds) < 2:
        return "one seed"
    over_seeds = _CLEAR_OVER_SEEDS[min(len(seeds) - 1, len(_CLEAR_OVER_SEEDS)) - 1]
    least = max(
        _CLEAR_OVER_POSITIONS * (found["error_over_positions"] or 0.0),
        over_seeds * (found["error_over_seeds"] or 0.0),
    )
    agree = all(each * difference > 0 for each in seeds)
    if not agree or abs(difference) < least:
        return "not clear"
    return below if difference < 0 else above


def results_of(
    comparison: Comparison, by_seed: Sequence[Sequence[FinishedTraining]]
) -> dict[str, Any]:
    """Return the results as JSON.

    Args:
        comparison: what was compared.
        by_seed: ``[seeds][runs]``, the finished trainings.
    """
    trainings = {
        name: [seed[place] for seed in by_seed] for place, name in enumerate(comparison.runs)
    }
    first = trainings[next(iter(trainings))]
    request = comparison.request
    exam = [
        _question(question, first, mine)
        for question in first[0].exam
        for mine in trainings.values()
    ]
    match = [
        {"run": name, **match_result([_match_scores(each, request.match) for each in mine])}
        for name, mine in trainings.items()
        if mine is not first and request.match
    ]
    opponents = [
        {"run": name, "seed": each.seed, **row}
        for name, mine in trainings.items()
        for each in mine
        for played, rows in each.played.items()
        if not played.startswith("match ")
        for row in rows
    ]
    costs = [
        {"measure": measure, "run": name, "mean": statistics.fmean(map(cost, mine))}
        for measure, cost in COSTS.items()
        for name, mine in trainings.items()
    ]
    return {
        "zerofleet": __version__,
        "game": comparison.game,
        "runs": list(comparison.runs),
        "seeds": list(request.seeds),
        "budget": comparison.budget.words,
        "exam_simulations": comparison.first.exam.num_simulations,
        "differences": comparison.differences(),
        "exam": exam,
        "match": match,
        "opponents": opponents,
        "costs": costs,
        "trainings": [
            {
                "run": each.run,
                "seed": each.seed,
                "precision": each.precision,
                "cpu": each.cpu,
                "rows": each.rows,
            }
            for mine in trainings.values()
            for each in mine
        ],
    }


def _match_scores(training: FinishedTraining, games: int) -> Sequence[Sequence[float]]:
    """Return the scores of the match against the first run's model, ``[pairs][2]``."""
    [scores] = [
        scores
        for key, scores in training.played.items()
        if key.rpartition(" ")[0] == f"match {games}"
    ]
    return scores


def _question(
    question: str, first: Sequence[FinishedTraining], mine: Sequence[FinishedTraining]
) -> dict[str, Any]:
    answers = [each.exam[question] for each in mine]
    row: dict[str, Any] = {
        "question": question,
        "run": mine[0].run,
        "positions": len(answers[0].wrong) or None,
        "error_rate": statistics.fmean(each.error_rate for each in answers),
    }
    if mine is first:
        return row
    pairs = zip(answers, (each.exam[question] for each in first), strict=True)
    return row | paired_difference(np.stack([_mistakes(a) - _mistakes(b) for a, b in pairs]))


def _mistakes(answers: ExamAnswers) -> NDArray[np.float64]:
    """Return 1 for each position with a mistake, ``[positions]``; the share of lines, ``[1]``."""
    return np.array([float(each) for each in answers.wrong] or [answers.error_rate])


def question_words(question: str) -> str:
    """Return a question such as ``random@100`` in words."""
    kind, _, number = question.partition("@")
    how = "network alone" if number == "1" else f"{int(number):,} simulations"
    return f"{_KINDS.get(kind, kind)}, {how}"


Cells = tuple[str, str, str, str, str, str, str, str]
HEADINGS: Cells = (
    "measure",
    "run",
    "mean",
    "difference",
    "± positions",
    "± seeds",
    "by seed",
    "reading",
)
"""Headings of the table; ``difference`` is from the first run, in percentage points."""


def table_rows(results: dict[str, Any]) -> list[Cells]:
    """Return the rows of the table as strings; a row with only a first cell is a heading."""
    rows: list[Cells] = []
    if results["exam"]:
        rows.append(_heading("Error rate in the exam"))
    for row in results["exam"]:
        words, mean = question_words(row["question"]), f"{row['error_rate']:.2%}"
        rows += [(words, row["run"], mean, *_difference_cells(row, "all lines"))]
    if results["match"]:
        rows.append(_heading("Match against the first run"))
    for row in results["match"]:
        low, high = row["interval"]
        mean = f"{row['score']:.1%}"
        words = f"score of {row['games']} games"
        rows.append((words, row["run"], mean, *_difference_cells(row, "one pair")))
        interval = f"{100 * low:.0f}-{high:.0%}"
        rows.append(("95% interval", row["run"], interval, "", "", "", "", ""))
    rows.append(_heading("Mean of each training"))
    for row in results["costs"]:
        digits = 1 if row["mean"] < 100 and row["measure"].startswith("CPU") else 0
        mean = f"{row['mean']:,.{digits}f}"
        rows.append((row["measure"], row["run"], mean, "", "", "", "", ""))
    return rows


def _heading(words: str) -> Cells:
    return (words, "", "", "", "", "", "", "")


def _difference_cells(row: dict[str, Any], without: str) -> tuple[str, str, str, str, str]:
    """Return the cells of a difference, in percentage points.

    Args:
        row: a row of the results; the first run has no difference.
        without: shown in place of a missing error over positions.
    """
    if "difference" not in row:
        return ("", "", "", "", "")
    positions, seeds = row["error_over_positions"], row["error_over_seeds"]
    return (
        f"{100 * row['difference']:+.2f}",
        without if positions is None else f"{100 * positions:.2f}",
        "one seed" if seeds is None else f"{100 * seeds:.2f}",
        " ".join(f"{100 * each:+.1f}" for each in row["by_seed"]),
        row["reading"],
    )


def opponent_rows(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a row for each opponent that is not a compared run: run, seed, opponent, results."""
    names = ("games", "wins", "draws", "losses")
    return [
        (row["run"], str(row["seed"]), row["opponent"], *(f"{row[name]:,}" for name in names))
        for row in results["opponents"]
    ]


def notes(results: dict[str, Any]) -> list[str]:
    """Return the explanations below the table."""
    first = results["runs"][0]
    found = [
        f"Trained for {results['budget']} each, with {seed_words(results['seeds'])}. "
        f"Differences are from {first}, in percentage points, paired by position and seed."
    ]
    if results["exam"]:
        found.append(
            "± positions: standard error over the exam's positions, or over the match's pairs of "
            "games, for these trained models."
        )
    found.append("± seeds: standard error over seeds, which includes the randomness of training.")
    if results["match"]:
        found.append(
            f"All matches and exams use the search of {first}. A match has "
            f"{results['exam_simulations']} simulations per move. A score of 50% is even."
        )
    return found if len(results["runs"]) > 1 else found[:1]


def print_table(results: dict[str, Any]) -> None:
    """Print the table to standard output."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(_WIDTH, console.width)
    runs: list[str] = results["runs"]
    letters = {name: chr(ord("A") + place % 26) for place, name in enumerate(runs)}
    for name, letter in letters.items():
        console.print(f"{letter}  {name}", markup=False)
    shown = len(HEADINGS) if len(runs) > 1 else 3
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    rows = table_rows(results)
    for place, heading in enumerate(HEADINGS[:shown]):
        is_text = place in (0, 1, 7)
        figures = [row[place] for row in rows if row[1] and place > 1]
        table.add_column(
            heading,
            justify="left" if is_text else "right",
            # A figure is never cut, however narrow the terminal.
            min_width=max(len(word) for text in (heading, *figures) for word in text.split()),
        )
    above = ""
    for measure, run, *cells in rows:
        if not run:
            table.add_row(f"[bold]{escape(measure)}[/]")
            continue
        first = "" if measure == above else f"  {measure}"
        table.add_row(first, letters[run], *cells[: shown - 2])
        above = measure
    console.print(table)
    if results["opponents"]:
        others = Table(box=SIMPLE_HEAD, pad_edge=False)
        for heading in ("run", "seed", "opponent", "games", "won", "drawn", "lost"):
            others.add_column(heading)
        for row in opponent_rows(results):
            others.add_row(*map(escape, row))
        console.print(others)
    for note in notes(results):
        console.print(note, markup=False)
