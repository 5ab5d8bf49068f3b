"""The run file (what is trained, and how) and the settings of a process (where things are).

Order for both, strongest first: command line, environment (``ZEROFLEET_SEARCH__NUM_SIMULATIONS``),
file, defaults. A key that nobody knows is an error that names the nearest known one.
"""

from zerofleet.config.judge import ANCHOR, EvaluatorSection, ExamSection, GoalSection, RatingSection
from zerofleet.config.learn import (
    NetworkSection,
    OverfitSection,
    RetentionSection,
    TrainerSection,
)
from zerofleet.config.load import load_run, read_settings
from zerofleet.config.play import GameSection, ResignSection, SearchSection, SelfplaySection
from zerofleet.config.precision import PrecisionSection, VariantPrecision
from zerofleet.config.process import ENV_PREFIX, ProcessSettings
from zerofleet.config.run import RunConfig, run_from_values
from zerofleet.config.scaling import ScalingSection
from zerofleet.config.section import Section
from zerofleet.config.serve import InferenceSection

__all__ = [
    "ANCHOR",
    "ENV_PREFIX",
    "EvaluatorSection",
    "ExamSection",
    "GameSection",
    "GoalSection",
    "InferenceSection",
    "NetworkSection",
    "OverfitSection",
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
    "VariantPrecision",
    "load_run",
    "read_settings",
    "run_from_values",
]
