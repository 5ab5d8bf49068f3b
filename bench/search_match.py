"""Which of two searches plays better with the same network, and what does each ask of it?

``python -m bench.search_match connect_four --model FILE --second reuse_tree=false`` plays paired
games from random openings: in each pair both have each colour. ``--first``, ``--second`` and
``--both`` set a key of ``[search]``; repeat them for several keys. They also take ``lcb_stdevs``
and ``c_puct_stdev_scale``, which client searches use and no run file sets.

Moves are chosen without noise. The score is the first search's; its 95% interval comes from the
scores of pairs. Positions are those that the network was asked for, which is what a search costs.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from pydantic import ValidationError
from zerofleet_core import GameColumns, Match, SearchConfig

from bench.model_file import model_bytes
from bench.report import Row, parser, positive, show, told
from bench.workloads import Workload
from zerofleet.config import run_from_values
from zerofleet.errors import ConfigError
from zerofleet.match.play_match import random_openings
from zerofleet.models.runtime import CPU
from zerofleet.models.session import ModelSession, open_session
from zerofleet.prediction import PRECISIONS
from zerofleet.search_configs import DETERMINISTIC, STDEV_SETTINGS

COLUMNS = {
    "search": ("search", ""),
    "score": ("score", ".1%"),
    "low": ("low", ".1%"),
    "high": ("high", ".1%"),
    "games": ("games", ",d"),
    "plies": ("plies", ",d"),
    "positions/ply": ("positions_per_ply", ".1f"),
    "visits/ply": ("visits_per_ply", ".1f"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Play and print."""
    options = parse(argv)
    rows = play(options.workload, options)
    what = f"{options.workload.name}, {options.model or 'random weights'}, {options.precision}"
    show(rows, what, COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    found = parser("bench.search_match", __doc__)
    found.add_argument("--model", type=Path, help="a model file of fp32; else random weights")
    found.add_argument("--precision", choices=PRECISIONS, default="fp32")
    found.add_argument("--simulations", type=positive(int), help="of a move, for both")
    found.add_argument("--games", type=positive(int), default=1000, help="about so many [1000]")
    found.add_argument("--opening-plies", type=positive(int), default=4, help="[4]")
    found.add_argument("--seed", type=int, default=1, help="of openings and symmetries [1]")
    for name in ("both", "first", "second"):
        found.add_argument(f"--{name}", metavar="KEY=VALUE", action="append", default=[])
    return found.parse_args(argv)


def play(workload: Workload, options: argparse.Namespace) -> list[Row]:
    """Play all games; a row for each search."""
    base = {"num_simulations": options.simulations or workload.simulations}
    searches = [
        _search(workload.game, base, [*options.both, *options.first]),
        _search(workload.game, base, [*options.both, *options.second]),
    ]
    pairs = math.ceil(options.games / 2)
    openings, starts = random_openings(workload.game, options.opening_plies, pairs, options.seed)
    model = model_bytes(workload, options.precision, options.model)
    session = open_session(model, workload.spec, CPU)
    match = Match(
        workload.game,
        openings,
        searches[0],
        options.seed,
        other=searches[1],
        starts=starts[: len(openings)],
    )
    games, asked = _played(match, session)
    return _rows(workload, games, asked, options)


def _search(game: str, base: dict[str, object], settings: Iterable[str]) -> SearchConfig:
    values = dict(base)
    for setting in settings:
        key, _, text = setting.partition("=")
        try:
            values[key] = json.loads(text)
        except ValueError:
            values[key] = text
    # No run file sets these two, so [search] is checked without them.
    stdev_settings = {key: float(str(values.pop(key))) for key in STDEV_SETTINGS if key in values}
    asked = {"name": "match", "preset": "plain", "game": game, "search": values}
    try:
        run = run_from_values(asked)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ConfigError(f"{key} = {first['input']!r}: {first['msg']}") from error
    return SearchConfig(**run.search.model_dump() | DETERMINISTIC | stdev_settings)


def _played(match: Match, session: ModelSession) -> tuple[list[GameColumns], list[int]]:
    """All games, and the positions that each side had predicted."""
    games: list[GameColumns] = []
    asked = [0, 0]
    while not match.done:
        for side in (0, 1):
            observations = match.select(side)
            if len(observations) > 0:
                asked[side] += len(observations)
                match.backup(side, *session.run(observations), 1)
        games += match.take_finished()
    return games, asked


def _rows(
    workload: Workload,
    games: Sequence[GameColumns],
    asked: Sequence[int],
    options: argparse.Namespace,
) -> list[Row]:
    scores = np.zeros(len(games))
    plies, visits = [0, 0], [0, 0]
    for game in games:
        second_begins = game.game_id % 2
        result = game.result or 0
        scores[game.game_id] = 0.5 + 0.5 * (-result if second_begins else result)
        for side in (0, 1):
            mine = (game.to_play == (side ^ second_begins)) & (game.simulations > 0)
            plies[side] += int(mine.sum())
            visits[side] += int(game.simulations[mine].sum())
    pairs = scores.reshape(-1, 2).mean(axis=1)
    score = float(pairs.mean())
    margin = 1.96 * statistics.stdev(pairs) / math.sqrt(len(pairs)) if len(pairs) > 1 else 1.0
    about = {
        "bench": "search_match",
        "game": workload.name,
        "model": str(options.model or "random"),
        "precision": options.precision,
        "games": len(games),
    }
    return [
        about
        | {
            "search": name,
            "score": round(of_side, 4),
            "low": round(max(0.0, of_side - margin), 4),
            "high": round(min(1.0, of_side + margin), 4),
            "plies": plies[side],
            "positions_per_ply": round(asked[side] / max(plies[side], 1), 2),
            "visits_per_ply": round(visits[side] / max(plies[side], 1), 2),
            "settings": list(settings),
        }
        for side, (name, of_side, settings) in enumerate(
            (
                ("first", score, [*options.both, *options.first]),
                ("second", 1.0 - score, [*options.both, *options.second]),
            )
        )
    ]


if __name__ == "__main__":
    told(main)
