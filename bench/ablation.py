"""What each acceleration is worth: exam errors after equal numbers of network evaluations.

``python -m bench.ablation --evaluations 6e6 --seeds 1 2`` trains one small network for each variant
and seed, in one process and without stores: self-play, then the samples that its positions pay for,
then the next model, over and over until the evaluations are used up. The number to compare is the
share of wrong moves in a sample of Connect Four positions against perfect play, averaged over the
last models of a run. Evaluations by self-play are counted, those of the exam are not.

Variants: ``agz`` is the preset of the paper at the simulations of ``--simulations``; each other one
switches one thing on; ``fast`` has all of the preset; ``fast-X`` all but X.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import time
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from zerofleet_core import GameColumns, ReplayBuffer, SearchConfig, SelfPlay

from services.trainer.learner import Learner
from services.trainer.schedule import window_limit
from services.trainer.train_bucket import TrainBucket
from zerofleet import games
from zerofleet.config import RunConfig, SearchSection, run_from_values
from zerofleet.exam import examine
from zerofleet.models.session import ModelSession
from zerofleet.network import export_onnx
from zerofleet.prediction import Prediction

GAME = "connect_four"
ENGINE_GAMES = 128
MODELS = 40  # of one run
LAST_MODELS = 5  # whose exams are averaged

Values = dict[str, Any]

FAST_PLAYOUTS = {"search.full_search_share": 0.25}
FORCED = {"search.forced_playouts": 2.0, "search.prune_targets": True}
RESIGN = {"resign.enabled": True}
KEPT_TREE = {"search.reuse_tree": True}
GROWING = {"trainer.growing_window": True}
AVERAGE = {"trainer.average_decay": 0.75}
POOLING = {"network.global_pooling": True}
FAST = FAST_PLAYOUTS | FORCED | RESIGN | KEPT_TREE | GROWING | AVERAGE | POOLING
OFF = {
    "search.full_search_share": 1.0,
    "search.forced_playouts": 0.0,
    "search.prune_targets": False,
    "resign.enabled": False,
    "search.reuse_tree": False,
    "trainer.growing_window": False,
    "trainer.average_decay": 0.0,
    "network.global_pooling": False,
}
GUMBEL = {"search.root": "gumbel", "search.gumbel_actions": 7}

VARIANTS: dict[str, Values] = {
    "agz": {},
    "+kept tree": KEPT_TREE,
    "+resignation": RESIGN,
    "+fast playouts": FAST_PLAYOUTS,
    "+fast playouts, kept tree": FAST_PLAYOUTS | KEPT_TREE,
    "+kept tree, forced visits": KEPT_TREE | FORCED,
    "+growing window": GROWING,
    "+weight average": AVERAGE,
    "+global pooling": POOLING,
    "+gumbel": GUMBEL,
    "fast": FAST,
    "fast-fast playouts": FAST | {"search.full_search_share": 1.0},
    "fast-forced visits": FAST | {"search.forced_playouts": 0.0, "search.prune_targets": False},
    "fast-kept tree": FAST | {"search.reuse_tree": False},
    "fast-resignation": FAST | {"resign.enabled": False},
    "fast-growing window": FAST | {"trainer.growing_window": False},
    "fast-weight average": FAST | {"trainer.average_decay": 0.0},
    "fast-global pooling": FAST | {"network.global_pooling": False},
    "fast, half the moves": FAST | {"search.full_search_share": 0.5},
    "gumbel, 32 simulations": GUMBEL | {"search.num_simulations": 32},
}


@dataclass
class Outcome:
    """One trained network."""

    variant: str
    seed: int
    evaluations: int
    error_rate: float = math.nan  # mean of the last models
    games: int = 0
    positions: int = 0  # training targets
    plies: int = 0
    resigned: int = 0
    steps: int = 0
    v_resign: float | None = None
    cpu_s: float = 0.0
    curve: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])


class Model:
    """The newest network as a ``Predictor``."""

    def __init__(self, learner: Learner, version: int) -> None:
        spec = games.spec(GAME)
        name = {"version": str(version)}
        model = export_onnx(learner.published, spec.observation_bytes, name)
        self._session = ModelSession(model, spec)
        self.version = version

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict on the calling thread."""
        policy_logits, value = self._session.run(observations)
        return Prediction(policy_logits, value, self.version)


class Resignation:
    """v_resign by the rule of the fleet, from games that played on."""

    def __init__(self, run: RunConfig) -> None:
        self._section = run.resign
        self._games: deque[list[tuple[float, bool]]] = deque(maxlen=run.resign.window_games)

    def add(self, game: GameColumns) -> None:
        """Note a game that was played on: at each ply the value, and whether it did not lose."""
        if not game.plays_on:
            return
        values = np.maximum(game.root_value, game.best_child_value)[1:]
        result = game.result or 0
        movers = np.asarray(game.to_play)[1:]
        self._games.append(
            [
                (float(v), result * (1 - 2 * int(m)) >= 0)
                for v, m in zip(values, movers, strict=True)
            ]
        )

    def threshold(self) -> float | None:
        """The highest of a grid that keeps wrong resignations rare enough."""
        if not self._section.enabled or len(self._games) < self._section.min_games:
            return None
        best: float | None = None
        for step in range(100):
            threshold = -1 + step / 100
            if threshold > self._section.highest:
                break
            firsts = [next((w for v, w in game if v < threshold), None) for game in self._games]
            would = [wrong for wrong in firsts if wrong is not None]
            if (sum(would) + 1) / (len(would) + 1) <= self._section.false_positive_share:
                best = threshold
        return best


def make_run(variant: Values, simulations: int, seed: int) -> RunConfig:
    """The run of a variant: the paper's switches, the size of ``runs/connect_four.toml``."""
    values: Values = {
        "name": "ablation",
        "seed": seed,
        "preset": "plain",
        "game": {"name": GAME},
        "search": {"num_simulations": simulations, "temperature_moves": 12},
        "network": {"blocks": 3, "channels": 32},
        "trainer": {
            "batch_size": 256,
            "learning_rate": [0.02],
            "learning_rate_steps": [],
            "window_positions": 100_000,
            "growing_window_positions": 15_000,
        },
    }
    for path, value in (OFF | variant).items():
        section, key = path.split(".")
        values.setdefault(section, {})[key] = value
    return run_from_values(values)


async def train(
    name: str, run: RunConfig, evaluations: int, exam: SearchSection, exam_positions: int
) -> Outcome:
    """Train one network until its self-play has used up the evaluations.

    The exam's search is the same for all variants, so that what they learnt is compared.
    """
    outcome = Outcome(name, run.seed, evaluations)
    began = time.process_time()
    learner = Learner(games.spec(GAME), run)
    bucket = TrainBucket(run.trainer.samples_per_position)
    buffer = ReplayBuffer(GAME, run.trainer.window_positions, run.trainer.window_games)
    engine = SelfPlay(GAME, ENGINE_GAMES, SearchConfig(**run.search.model_dump()), run.seed)
    resignation = Resignation(run)
    section = run.resign
    engine.set_resignation(None, section.play_on_share if section.enabled else 0.0)
    for version in range(1, MODELS + 1):
        model = Model(learner, version)
        if version > 1:
            await examine_model(outcome, model, exam, exam_positions, engine)
        while engine.statistics.positions_evaluated < evaluations * version / MODELS:
            observations = engine.select()
            prediction = await model.predict(observations)
            engine.backup(prediction.policy_logits, prediction.value, version)
            for game in engine.take_finished():
                take(game, buffer, bucket, run)
                resignation.add(game)
        outcome.v_resign = resignation.threshold()
        if section.enabled:
            engine.set_resignation(outcome.v_resign, section.play_on_share)
        size = run.trainer.batch_size
        while bucket.holds(size) and buffer.positions >= run.trainer.min_positions:
            learner.train(buffer.sample(size, run.seed * 1_000_003 + learner.step, symmetry=True))
            bucket.draw(size)
    await examine_model(outcome, Model(learner, MODELS + 1), exam, exam_positions, engine)
    outcome.error_rate = statistics.mean(rate for _, rate in outcome.curve[-LAST_MODELS:])
    outcome.games = engine.statistics.games_finished
    outcome.resigned = engine.statistics.games_resigned
    outcome.plies = engine.statistics.plies
    outcome.positions = bucket.received
    outcome.steps = learner.step
    outcome.cpu_s = time.process_time() - began
    return outcome


def take(game: GameColumns, buffer: ReplayBuffer, bucket: TrainBucket, run: RunConfig) -> None:
    """Add a finished game to the window, which pays for samples."""
    positions = int(np.count_nonzero(game.full_search))
    if run.trainer.growing_window:
        buffer.set_max_positions(window_limit(run.trainer, bucket.received + positions))
    added = buffer.add(
        game.action,
        game.result or 0,
        game.full_search,
        game.offsets,
        game.legal_actions,
        game.policy_weights,
        resigned=game.reason == "resign",
    )
    bucket.pay(added)


async def examine_model(
    outcome: Outcome, model: Model, exam: SearchSection, positions: int, engine: SelfPlay
) -> None:
    """Add a point to the curve; only what counts in the end is examined thoroughly."""
    last = model.version > MODELS + 1 - LAST_MODELS
    if not last and model.version % 5:
        return
    result = await examine(
        GAME,
        model,
        num_simulations=exam.num_simulations,
        positions=positions if last else positions // 4,
        search=exam,
    )
    used = engine.statistics.positions_evaluated
    outcome.curve.append((used, result.error_rate))
    print(f"# {outcome.variant} seed {outcome.seed}: {used:,} evaluations, {result.error_rate:.2%}")


def main() -> None:
    """Train, print a line of JSON for each network, then the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--evaluations", type=float, default=6e6, help="of each run [6e6]")
    parser.add_argument("--simulations", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--positions", type=int, default=1000, help="of the exam [1000]")
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    options = parser.parse_args()
    exam = make_run({}, options.simulations, 1).search
    outcomes: list[Outcome] = []
    for seed in options.seeds:
        for name in options.variants:
            run = make_run(VARIANTS[name], options.simulations, seed)
            outcome = asyncio.run(
                train(name, run, int(options.evaluations), exam, options.positions)
            )
            print(json.dumps(asdict(outcome)), flush=True)
            outcomes.append(outcome)
    print_table(outcomes)


def print_table(outcomes: list[Outcome]) -> None:
    """One row for each variant, means over seeds."""
    table = Table(title="errors after equal evaluations")
    for column in (
        "variant",
        "error rate by seed",
        "mean",
        "games",
        "targets",
        "resigned",
        "CPU-s",
    ):
        table.add_column(column, justify="left" if column == "variant" else "right")
    for name in dict.fromkeys(outcome.variant for outcome in outcomes):
        mine = [outcome for outcome in outcomes if outcome.variant == name]
        table.add_row(
            name,
            " ".join(f"{outcome.error_rate:.1%}" for outcome in mine),
            f"{statistics.mean(outcome.error_rate for outcome in mine):.1%}",
            f"{statistics.mean(outcome.games for outcome in mine):,.0f}",
            f"{statistics.mean(outcome.positions for outcome in mine):,.0f}",
            f"{statistics.mean(outcome.resigned / outcome.games for outcome in mine):.0%}",
            f"{statistics.mean(outcome.cpu_s for outcome in mine):,.0f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
