"""Play two searches with the same network against each other, and count their predictions.

``python -m bench.search_match connect_four --model FILE --second reuse_tree=false`` plays pairs of
games from random openings. Both games of a pair have the same opening and swap colours.

``--first``, ``--second`` and ``--both`` set a key of ``[search]`` over the preset ``plain``. Repeat
them for several keys. They also take ``lcb_stdevs`` and ``c_puct_stdev_scale``, which only client
searches use. No run file sets these two.

Moves are chosen without noise. The 95% interval of a score comes from the scores of pairs.
``positions/ply`` counts the network's predictions, which are the cost of a search.
"""

from __future__ import annotations

import argparse
import difflib
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from zerofleet_core import GameColumns, Match, SearchConfig

from bench.model_file import model_bytes
from bench.report import Row, parser, positive, run_main, show
from bench.workloads import Workload
from zerofleet.config import Overrides, SearchSection, near_key, run_from_values
from zerofleet.config.presets import Values, merge
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
    """Play the match and print a row for each search."""
    options = parse(argv)
    rows = play(options.workload, options)
    title = f"{options.workload.name}, {options.model or 'random weights'}, {options.precision}"
    show(rows, title, COLUMNS, as_json=options.json)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    command_line = parser("bench.search_match", __doc__, blocks=False)
    command_line.add_argument("--model", type=Path, help="model file in fp32 [random weights]")
    command_line.add_argument(
        "--precision", choices=PRECISIONS, default="fp32", help="precision of the model [fp32]"
    )
    command_line.add_argument(
        "--simulations",
        type=positive(int),
        help="simulations per move, for both searches [the game's workload]",
    )
    command_line.add_argument(
        "--games",
        type=positive(int),
        default=1000,
        help="number of games [1000]; a small game may have fewer openings",
    )
    command_line.add_argument(
        "--opening-plies", type=positive(int), default=4, help="random plies at the start [4]"
    )
    command_line.add_argument("--seed", type=int, default=1, help="seed of the openings [1]")
    for name in ("both", "first", "second"):
        which = "both searches" if name == "both" else f"the {name} search"
        command_line.add_argument(
            f"--{name}",
            metavar="KEY=VALUE",
            action="append",
            default=[],
            help=f"set a key of [search] for {which}; may be repeated",
        )
    return command_line.parse_args(argv)


def play(workload: Workload, options: argparse.Namespace) -> list[Row]:
    """Play all games, and return a row for each search.

    Raises:
        ConfigError: an unknown key or an invalid value of a search, or openings that are as long as
            the game.
    """
    simulations = options.simulations or workload.simulations
    both = [("--both", text) for text in options.both]
    searches = [
        _search(workload.game, simulations, [*both, *((f"--{name}", text) for text in own)])
        for name, own in (("first", options.first), ("second", options.second))
    ]
    pairs = math.ceil(options.games / 2)
    openings, starts = random_openings(
        workload.game, options.opening_plies, pairs, options.seed, setting="--opening-plies"
    )
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
    games, predictions = _play_games(match, session)
    return _rows(workload, games, predictions, options)


def _search(game: str, simulations: int, settings: Sequence[tuple[str, str]]) -> SearchConfig:
    """Return a search of the preset ``plain`` with these settings.

    Args:
        simulations: simulations for each move, unless a setting gives them.
        settings: the option and the text ``KEY=VALUE`` of each, the strongest last.

    Raises:
        ConfigError: an unknown key or an invalid value.
    """
    numbers: dict[str, Any] = {}
    texts: list[tuple[str, str]] = []
    for option, text in settings:
        key, equals, value = text.partition("=")
        key = key.strip().removeprefix("search.")
        if equals and key in STDEV_SETTINGS:  # no run file sets these
            numbers[key] = _number(f"{option} {text}", value)
        elif equals and key not in SearchSection.model_fields:
            raise ConfigError(f"{option} {text}: unknown key '{key}'{_near(key)}")
        else:
            texts.append((f"{option} ", f"search.{key}={value}" if equals else text))
    overrides = Overrides.parse(texts)
    if overrides.mistakes:
        raise ConfigError(*overrides.mistakes)
    base: Values = {"name": "match", "preset": "plain", "game": game}
    base["search"] = {"num_simulations": simulations}
    try:
        run = run_from_values(merge(base, overrides.values))
        return SearchConfig(**run.search.model_dump() | DETERMINISTIC | numbers)
    except ValidationError as error:
        first = error.errors()[0]
        location = [str(part) for part in first["loc"]]
        source = overrides.source_of(location)
        label = source.label if source else ".".join(location)
        raise ConfigError(f"{label}: {first['msg']}") from error
    except ValueError as error:
        given = ", ".join(f"{option} {text}" for option, text in settings)
        raise ConfigError(f"{given}: {error}") from error


def _near(key: str) -> str:
    """Return a hint for an unknown key of a search."""
    near = difflib.get_close_matches(key, STDEV_SETTINGS, n=1, cutoff=0.8)
    return f": did you mean '{near[0]}'?" if near else near_key(key, ["search"])


def _number(label: str, text: str) -> float:
    """Return the number in a text.

    Raises:
        ConfigError: the text is not a number; the message begins with the label.
    """
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"{label}: give a number") from error


def _play_games(match: Match, session: ModelSession) -> tuple[list[GameColumns], list[int]]:
    """Return all games, and the number of predictions of each side."""
    games: list[GameColumns] = []
    predictions = [0, 0]
    while not match.done:
        for side in (0, 1):
            observations = match.select(side)
            if len(observations) > 0:
                predictions[side] += len(observations)
                match.backup(side, *session.run(observations), 1)
        games += match.take_finished()
    return games, predictions


def _rows(
    workload: Workload,
    games: Sequence[GameColumns],
    predictions: Sequence[int],
    options: argparse.Namespace,
) -> list[Row]:
    """Return the scores and costs of both searches; ``predictions`` are counted by search."""
    scores = np.zeros(len(games))
    plies, visits = [0, 0], [0, 0]
    for game in games:
        second_begins = game.game_id % 2
        result = game.result or 0
        scores[game.game_id] = 0.5 + 0.5 * (-result if second_begins else result)
        for side in (0, 1):
            is_own_ply = (game.to_play == (side ^ second_begins)) & (game.simulations > 0)
            plies[side] += int(is_own_ply.sum())
            visits[side] += int(game.simulations[is_own_ply].sum())
    pairs = scores.reshape(-1, 2).mean(axis=1)
    score = float(pairs.mean())
    margin = 1.96 * statistics.stdev(pairs) / math.sqrt(len(pairs)) if len(pairs) > 1 else 1.0
    common: Row = {
        "bench": "search_match",
        "game": workload.name,
        "model": str(options.model or "random"),
        "precision": options.precision,
        "games": len(games),
    }
    return [
        common
        | {
            "search": name,
            "score": round(side_score, 4),
            "low": round(max(0.0, side_score - margin), 4),
            "high": round(min(1.0, side_score + margin), 4),
            "plies": plies[side],
            "positions_per_ply": round(predictions[side] / max(plies[side], 1), 2),
            "visits_per_ply": round(visits[side] / max(plies[side], 1), 2),
            "settings": list(settings),
        }
        for side, (name, side_score, settings) in enumerate(
            (
                ("first", score, [*options.both, *options.first]),
                ("second", 1.0 - score, [*options.both, *options.second]),
            )
        )
    ]


if __name__ == "__main__":
    run_main(main)
