"""Variants of a run without single parts of the defaults, or with one alone.

``python -m bench.accelerations 'no proven results'`` prints the keys of a variant, as ``zerofleet
compare RUN.toml --set`` takes them; without a name it lists the variants.
"""

from __future__ import annotations

import json
import sys

from zerofleet.config.presets import PRESETS

Settings = dict[str, object]
"""Keys of a run file, with the section before the dot, and their values."""

PARTS: dict[str, tuple[str, ...]] = {
    "Gumbel root": ("search.root", "search.num_simulations"),
    "proven results": ("search.prove_results", "search.decisive_moves"),
    "random openings": ("selfplay.random_opening_share", "selfplay.random_opening_plies"),
    "resignation": ("resign.enabled",),
    "outcome head": ("network.value_head",),
    "optimizer": (
        "trainer.optimizer",
        "trainer.learning_rate",
        "trainer.learning_rate_steps",
        "trainer.warmup_samples",
    ),
    "lambda-returns": ("trainer.value_lambda",),
    "growing window": ("trainer.growing_window",),
    "average of weights": ("trainer.average_decay",),
}
"""Settings for learning that the defaults add to ``plain``, by keys that belong together."""

_PLAIN = {
    f"{section}.{key}": value
    for section, keys in PRESETS["plain"].items()
    for key, value in keys.items()
} | {"trainer.learning_rate_steps": ()}


def _without(*parts: str) -> Settings:
    return {key: _PLAIN[key] for part in parts for key in PARTS[part]}


VARIANTS: dict[str, Settings] = {
    "run": {},
    **{f"no {part}": _without(part) for part in PARTS},
    "plain": _without(*PARTS),
    **{f"only {part}": _without(*(each for each in PARTS if each != part)) for part in PARTS},
}
"""By name: ``run`` as it is; ``no`` has one part as in the preset ``plain``; ``plain`` has all of
them so, and ``only`` all but one."""


def settings_of(variant: str) -> str:
    """The keys of a variant as one text, for ``--set``."""
    return ",".join(f"{key}={json.dumps(value)}" for key, value in VARIANTS[variant].items())


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in VARIANTS:
        print(settings_of(sys.argv[1]))
    else:
        sys.exit(f"give one of {', '.join(VARIANTS)}")
