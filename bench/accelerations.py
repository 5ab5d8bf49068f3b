"""Variants of a run without single parts of the preset ``fast``, or with one alone."""

from __future__ import annotations

from zerofleet.config.selfplay import ResignSection, SearchSection, SelfplaySection
from zerofleet.config.training import NetworkSection, TrainerSection

Settings = dict[str, object]
"""Keys of a run file, with the section before the dot, and their values."""

PARTS: dict[str, tuple[str, ...]] = {
    "fast searches": ("selfplay.full_search_share",),
    "forced visits": ("selfplay.forced_playouts", "selfplay.prune_targets"),
    "moves from all visits": (
        "selfplay.play_pruned",
        "selfplay.temperature",
        "selfplay.temperature_final",
        "selfplay.temperature_halflife",
    ),
    "softened priors": (
        "selfplay.root_policy_temperature",
        "selfplay.root_policy_temperature_final",
        "selfplay.root_policy_temperature_halflife",
    ),
    "root without FPU reduction": ("selfplay.root_fpu_reduction",),
    "proven results": ("search.prove_results", "search.decisive_moves"),
    "resignation": ("resign.enabled",),
    "outcome head": ("network.value_head",),
    "optimizer": (
        "trainer.optimizer",
        "trainer.learning_rate",
        "trainer.learning_rate_steps",
        "trainer.warmup_samples",
    ),
    "samples a position": ("trainer.samples_per_position",),
    "lambda-returns": ("trainer.value_lambda",),
    "growing window": ("trainer.growing_window",),
    "average of weights": ("trainer.average_decay",),
}
"""What ``fast`` has over ``plain`` for learning, by keys that only make sense together."""

_PLAIN = {
    f"{name}.{key}": value
    for name, section in (
        ("search", SearchSection()),
        ("selfplay", SelfplaySection()),
        ("resign", ResignSection()),
        ("network", NetworkSection()),
        ("trainer", TrainerSection()),
    )
    for key, value in section.model_dump().items()
}


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
