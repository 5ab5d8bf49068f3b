"""How strong does a run get for its CPU-seconds, and which of two variants learns more from them?

``python -m bench.strength runs/connect_four.toml --cpu-seconds 600`` lets the run learn in this
process, without stores and without a wall clock, and prints a row for each model: what it cost, how
its games were, and how it does in the exam: ``random`` and ``good`` are the shares of errors in
positions of random play and near good play (in chess ``endgames`` and ``mates``), at each number of
simulations (1 is the prior's best action), and ``mse`` the mean squared error of the searched
value. Exams cost the run nothing. Without a clock, what is given here stands for all of the run's
``trainer.budget_minutes``.

``--compare 'trainer.samples_per_position=12' 'search.c_puct=3,trainer.l2=0'`` lets the run (``-``)
and its variants learn in turns, each until its budget is used up. It prints how the last models
differ from the first variant's. All of them are examined with the first variant's ``[search]``.
``--match 60`` has them play this many games against the first's, which tells variants of any game
apart. ``--gnugo 20`` has each play GNU Go, and ``--anchor 'uci:stockfish?nodes=100' search`` has
each play these anchors. ``--variants run 'no proven results'`` takes parts
of the defaults off or leaves one alone, and ``--seed 1 2`` does it all with each seed.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from bench.learning_loop import LearningLoop
from bench.play_figures import PlayFigures
from bench.report import WIDTH, told
from bench.strength_games import PairScores, play_anchors, play_gnugo, play_pairs, play_perfect
from bench.strength_options import Budget, parse
from zerofleet.config import RunConfig
from zerofleet.exam import ENDINGS, SOLVER_CHOICES, examine, position_kinds
from zerofleet.prediction import Predictor

COLUMNS = {
    "model": ("model", 5, "d"),
    "evaluations": ("evaluations", 11, ",d"),
    "play s": ("cpu_play", 6, ".0f"),
    "train s": ("cpu_train", 7, ".0f"),
    "games": ("games", 7, ",d"),
    "steps": ("steps", 6, ",d"),
    "v_resign": ("v_resign", 8, ".2f"),
    "distinct": ("distinct", 8, ".1%"),
    "draws": ("draws", 6, ".1%"),
    "length": ("length", 6, ".1f"),
    "prior H": ("prior_entropy", 7, ".2f"),
    "target H": ("target_entropy", 8, ".2f"),
}
"""For each heading the field of a row, its width and its format; H is entropy, in nats."""


@dataclass
class ComparedRun:
    """A variant of the run that learns with one seed."""

    variant: str
    loop: LearningLoop
    examined_by: RunConfig
    """The first variant's run, whose search, simulations and openings all exams and games have."""
    answers: dict[str, NDArray[np.float64]] = field(default_factory=dict[str, NDArray[np.float64]])
    """Answers of the newest exam: [positions] 1 where the model made a mistake, or [1] the share of
    lines lost.
    """
    last: dict[str, Any] = field(default_factory=dict[str, Any])
    """The newest row."""
    match: PairScores | None = None
    """Scores of the last model against the first variant's."""


def main(argv: Sequence[str] | None = None) -> None:
    """Learn, and print a row for each model."""
    options = parse(__doc__, argv)
    torch.set_num_threads(1)  # CPU-seconds of several threads would hold their waits
    compared: list[ComparedRun] = []
    for seed in options.seeds:
        compared += asyncio.run(learn(options.runs, seed, options))
    if len(options.runs) > 1:
        print_differences(compared)


async def learn(
    runs: dict[str, RunConfig], seed: int, options: argparse.Namespace
) -> list[ComparedRun]:
    """All variants with one seed, in turns."""
    seeded = {name: run.model_copy(update={"seed": seed}) for name, run in runs.items()}
    first = next(iter(seeded.values()))
    compared = [
        ComparedRun(name, LearningLoop(run, options.precision), first)
        for name, run in seeded.items()
    ]
    print_heading(runs, seed)
    for one in compared:
        await report(one, options.simulations if options.every == 1 else [], options)
    budget: Budget = options.budget
    learning = list(compared)
    while learning:
        one = min(learning, key=lambda each: budget.share(each.loop))
        published = one.loop.turn()
        used = budget.share(one.loop)
        one.loop.learner.seconds = 60 * one.loop.run.trainer.budget_minutes * used
        if used >= 1:
            learning.remove(one)
            one.loop.finish()
            await report(one, options.last_simulations or options.simulations, options)
        elif published:
            due = one.loop.model.version % options.every == 0
            await report(one, options.simulations if due else [], options)
    if options.match:
        for one in compared[1:]:
            players = (one.loop.model, compared[0].loop.model)
            one.match = await play_pairs(one.examined_by, players, options.match)
    return compared


async def report(one: ComparedRun, simulations: Sequence[int], options: argparse.Namespace) -> None:
    """Examine the newest model, print its row and keep it."""
    loop = one.loop
    row: dict[str, Any] = {
        "variant": one.variant,
        "seed": loop.run.seed,
        "model": loop.model.version,
        "precision": loop.model.precision,
        "evaluations": loop.evaluations,
        **{f"cpu_{part}": round(seconds, 2) for part, seconds in loop.cpu.items()},
        "games": loop.engine.statistics.games_finished,
        "positions": loop.bucket.received,
        "steps": loop.learner.step,
        "samples": loop.learner.samples,
        "learning_rate": loop.learner.learning_rate,
        "v_resign": loop.resignation.threshold,
        **loop.figures.row(),
    }
    loop.figures = PlayFigures()
    if simulations:
        row |= await ask(one, simulations, options.positions)
    one.last = row
    try:
        if options.perfect_play and options.budget.share(loop) >= 1:
            row |= await play_perfect(one.examined_by, loop.model, options.perfect_play)
        if options.gnugo and options.budget.share(loop) >= 1:
            row |= await play_gnugo(one.examined_by, loop.model, options.gnugo)
        if options.anchors and options.budget.share(loop) >= 1:
            run, games = one.examined_by, options.anchor_games
            row |= await play_anchors(run, loop.model, options.anchors, games)
    finally:  # a program may fail; what was learnt is told all the same
        width = max(map(len, options.runs)) if len(options.runs) > 1 else 0
        print_row(row, width)
        if options.output is not None:
            with options.output.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(row)}\n")


async def ask(one: ComparedRun, simulations: Sequence[int], positions: int) -> dict[str, float]:
    """Return the newest model's errors and its values' errors, by kind and simulations."""
    found, one.answers = await exam_figures(one.examined_by, one.loop.model, simulations, positions)
    return found


async def exam_figures(
    run: RunConfig, predictor: Predictor, simulations: Sequence[int], positions: int
) -> tuple[dict[str, float], dict[str, NDArray[np.float64]]]:
    """Return a network's errors, its values' errors, and its mistakes, with the run's search.

    Args:
        run: its game and its ``[search]``.
        predictor: the network.
        simulations: numbers of simulations, each of which is examined.
        positions: of each kind, at most.
    """
    found, answers = dict[str, float](), dict[str, NDArray[np.float64]]()
    prior_alone = run.search.model_copy(update={"decisive_moves": False})
    for kind, number in itertools.product(position_kinds(run.game.name), simulations):
        result = await examine(
            run.game.name,
            predictor,
            num_simulations=number,
            positions=positions,
            kind=kind,
            search=run.search if number > 1 else prior_alone,
        )
        of = f"{kind}@{number}"
        found[of] = round(result.error_rate, 5)
        if result.value_error is not None:
            found[f"{of}_mse"] = round(result.value_error, 4)
        answers[of] = np.array(result.wrong or [result.error_rate], np.float64)
    return found, answers


def print_heading(runs: Mapping[str, RunConfig], seed: int) -> None:
    """Print the heading of the lines of a seed's models."""
    width = max(map(len, runs)) if len(runs) > 1 else 0
    headings = " ".join(f"{name:>{width}}" for name, (_, width, _) in COLUMNS.items())
    print(
        f"{next(iter(runs.values())).game.name}, seed {seed}\n{'':{width}} {headings}", flush=True
    )


def print_row(row: dict[str, Any], width: int) -> None:
    """One line for a model.

    Args:
        row: the model's.
        width: of the column of variants; 0: there is one alone.
    """
    label = row["variant"] if width else ""
    cells = [
        f"{'-' if row[key] is None else format(row[key], form):>{width}}"
        for key, width, form in COLUMNS.values()
    ]
    exam = [
        f"(mse {value:.3f})" if name.endswith("_mse") else f"{name} {value:.1%}"
        for name, value in row.items()
        if "@" in name
    ]
    games = [
        f"\n  {side} player against the solver, {choice}: {ended['wins']:,} won, "
        f"{ended['draws']:,} drawn, "
        f"{ended['kept']:,} of {ended['games']:,} as good as perfect, "
        f"{ended['given_away']:,} moves gave an outcome away"
        for side, choice in itertools.product(("first", "second"), SOLVER_CHOICES)
        if (ended := row.get(f"perfect_{side}_{choice}"))
    ]
    games += [
        f"\n  from {material}: {ended['wins']:,} of {ended['games']:,} mated, "
        f"{ended['given_away']:,} wins lost by a move"
        for material in ENDINGS
        if (ended := row.get(f"won_{material}"))
    ]
    games += [
        f"\n  against GNU Go's level {ended['level']}: "
        f"{ended['wins']:,} of {ended['games']:,} won ({ended['given_up']} not played out), "
        f"mean margin {math.nan if (margin := ended['mean_margin']) is None else margin:+.1f}"
        for ended in row.get("gnugo", ())
    ]
    games += [
        f"\n  against {ended['anchor']}: {ended['wins']:,} won, {ended['draws']:,} drawn, "
        f"{ended['losses']:,} lost of {ended['games']:,} ({ended['forfeits']} forfeited)"
        for ended in row.get("anchors", ())
    ]
    print(" ".join([f"{label:{width}}", *cells, "", *exam]) + "".join(games), flush=True)


def print_differences(compared: Sequence[ComparedRun]) -> None:
    """How the last models of each variant differ from the first variant's, by question.

    The standard error is that of the exam: of the differences at one position, means over seeds. It
    says nothing about another seed, for which there are the differences seed by seed.
    """
    by_variant: dict[str, list[ComparedRun]] = {}
    for one in compared:
        by_variant.setdefault(one.variant, []).append(one)
    first, *others = by_variant.values()
    table = Table(title=f"errors of the last models, and less those of {first[0].variant}")
    table.add_column("variant")
    asked = list(first[0].answers)
    matched = ["match"] if any(one.match is not None for one in compared) else []
    for heading in ("CPU-s", "games", "steps", *matched, *asked):
        table.add_column(heading, justify="right")
    for mine in (first, *others):
        cells = [
            f"{statistics.fmean(one.loop.cpu_seconds for one in mine):,.0f}",
            f"{statistics.fmean(one.last['games'] for one in mine):,.0f}",
            f"{statistics.fmean(one.last['steps'] for one in mine):,.0f}",
        ]
        if matched:
            cells.append(_score([one.match for one in mine if one.match is not None]))
        base = None if mine is first else first
        cells += [_difference(question, mine, base) for question in asked]
        table.add_row(mine[0].variant, *cells)
    Console(width=max(WIDTH, Console().width)).print(table)


def _difference(
    question: str, mine: Sequence[ComparedRun], first: Sequence[ComparedRun] | None
) -> str:
    rates = [float(one.answers[question].mean()) for one in mine]
    if first is None:
        return f"{statistics.fmean(rates):.2%}"
    pairs = list(zip(mine, first, strict=True))  # one for each seed
    by_seed = np.stack([a.answers[question] - b.answers[question] for a, b in pairs])
    difference, error = paired_difference(by_seed)
    seeds = " ".join(f"{100 * each:+.1f}" for each in by_seed.mean(axis=1))
    within = f" ({seeds})" if len(pairs) > 1 else ""
    return f"{statistics.fmean(rates):.2%} {100 * difference:+.2f} ± {100 * error:.2f}{within}"


def _score(matches: Sequence[PairScores]) -> str:
    if not matches:
        return ""
    score, error = mean_and_error(np.concatenate(matches))
    seeds = " ".join(f"{100 * float(pairs.mean()):.0f}" for pairs in matches)
    within = f" ({seeds})" if len(matches) > 1 else ""
    return f"{score:.1%} ± {100 * error:.1f}{within}"


def paired_difference(by_seed: NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean difference of two players and its standard error over positions.

    Args:
        by_seed: ``[seeds, positions]``, at each position the mistake of one less the other's.
    """
    return mean_and_error(by_seed.mean(axis=0))


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """The mean of values ``[count]`` and its standard error; nan for one value alone."""
    count = len(values)
    error = float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    return float(values.mean()), error


if __name__ == "__main__":
    told(main)
