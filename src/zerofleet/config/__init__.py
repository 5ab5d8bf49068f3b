"""The run file (what to train, and how) and the settings of a process (addresses and folders).

The run file sets the keys of a run. ``ZEROFLEET_SET`` overrides it, and ``--set`` overrides both.
All other ``ZEROFLEET_*`` variables name addresses, folders and secrets. An unknown key is an error
that names the nearest known one.

A key is a field of its section, and the field's default is the only one:

- ``selfplay``: ``[game]``, ``[search]``, ``[selfplay]``, ``[resign]``
- ``training``: ``[network]``, ``[trainer]``, ``[overfit]``, ``[retention]``
- ``run``: the other sections, and ``RunConfig``, which holds all of them
- ``presets``: what ``agz`` and ``plain`` change
- ``section``: rules for the values of all keys

A run file becomes a ``RunConfig`` in these modules:

- ``load``: reads the file and explains each mistake in it
- ``overrides``: ``ZEROFLEET_SET`` and ``--set``
- ``renamed``: the keys of version 1.0
- ``fit``: checks that depend on the game and the machine

``docs/reference/run-file.md``, which lists all keys with their defaults, is made from these fields.
"""

from zerofleet.config.anchor_names import ANCHORS, EngineName, check_anchor
from zerofleet.config.fit import check_policy_head, check_request_size, check_sizes
from zerofleet.config.load import (
    find_run_file,
    load_run,
    read_settings,
    run_file_text,
    stored_run,
)
from zerofleet.config.overrides import SET_VARIABLE, Overrides, near_key, split_settings
from zerofleet.config.process_settings import ENV_PREFIX, INITIAL_WEIGHTS, ProcessSettings
from zerofleet.config.run import (
    EvaluatorSection,
    ExamSection,
    GoalSection,
    InferenceSection,
    PrecisionSection,
    RatingSection,
    RunConfig,
    ScalingSection,
    run_from_values,
)
from zerofleet.config.section import Section
from zerofleet.config.selfplay import GameSection, ResignSection, SearchSection, SelfplaySection
from zerofleet.config.training import (
    NetworkSection,
    OverfitSection,
    RetentionSection,
    TrainerSection,
)

__all__ = [
    "ANCHORS",
    "ENV_PREFIX",
    "INITIAL_WEIGHTS",
    "SET_VARIABLE",
    "EngineName",
    "EvaluatorSection",
    "ExamSection",
    "GameSection",
    "GoalSection",
    "InferenceSection",
    "NetworkSection",
    "OverfitSection",
    "Overrides",
    "PrecisionSection",
    "ProcessSettings",
    "RatingSection",
    "ResignSection",
    "RetentionSection",
    "RunConfig",
    "ScalingSection",
    "SearchSection",
    "Section",
    "SelfplaySection",
    "TrainerSection",
    "check_anchor",
    "check_policy_head",
    "check_request_size",
    "check_sizes",
    "find_run_file",
    "load_run",
    "near_key",
    "read_settings",
    "run_file_text",
    "run_from_values",
    "split_settings",
    "stored_run",
]
