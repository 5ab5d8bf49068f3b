"""Variants of a run that turn parts of the default settings off, or on alone.

``python -m bench.accelerations 'no proven results'`` prints the keys of a variant in the format of
``zerofleet compare RUN.toml --set``. Without a name, it lists the variants.
"""

from __future__ import annotations

import json
import sys

from zerofleet.config.presets import PRESETS

Settings = dict[str, object]
"""Values by key of a run file, such as ``search.root``."""

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
"""Parts of the defaults that the preset ``plain`` does not have, and the keys of each part."""

_PLAIN = {
    f"{section}.{key}": value
    for section, keys in PRESETS["plain"].items()
    for key, value in keys.items()
} | {"trainer.learning_rate_steps": ()}


def _without(*parts: str) -> Settings:
    """Return the keys of these parts, with the values of the preset ``plain``."""
    return {key: _PLAIN[key] for part in parts for key in PARTS[part]}


VARIANTS: dict[str, Settings] = {
    "run": {},
    **{f"no {part}": _without(part) for part in PARTS},
    "plain": _without(*PARTS),
    **{f"only {part}": _without(*(other for other in PARTS if other != part)) for part in PARTS},
}
"""Settings by name of the variant. ``run`` changes nothing. ``no PART`` turns one part off,
``plain`` turns all parts off, and ``only PART`` turns all other parts off. A part that is off has
the values of the preset ``plain``."""


def settings_of(variant: str) -> str:
    """Return the settings of a variant in the format of ``--set``: ``key=JSON,key=JSON``.

    Raises:
        KeyError: unknown variant.
    """
    return ",".join(f"{key}={json.dumps(value)}" for key, value in VARIANTS[variant].items())


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in VARIANTS:
        print(settings_of(sys.argv[1]))
    else:
        sys.exit(f"name one of these variants: {', '.join(VARIANTS)}")
