"""The record of every run, in Postgres."""

from zerofleet.database.connection import libpq_url, without_password
from zerofleet.database.database import Database, Summary
from zerofleet.database.matches import (
    GateRule,
    Grounds,
    MatchGame,
    MatchKind,
    MatchRow,
    MatchScore,
    ModelName,
    Pair,
    PlayerResult,
    RatingPlace,
    RatingRow,
    Verdict,
    match_seed,
)
from zerofleet.database.metrics import ExamFigures, ExamRow, RecentPlay, WrongAnswer
from zerofleet.database.migrate import check_database, migrate
from zerofleet.database.models import ModelRow, Variant, VariantRow
from zerofleet.database.promotions import Promotion, PromotionRow
from zerofleet.database.retention import Kept, PartitionDrop, RemovableModel
from zerofleet.database.v_resign import ResignRow
from zerofleet.database.window_games import GameWindow, StoredGame, WindowBlocker
from zerofleet.database.worker_games import SaveStatus, Submission, SubmitStatus

__all__ = [
    "Database",
    "ExamFigures",
    "ExamRow",
    "GameWindow",
    "GateRule",
    "Grounds",
    "Kept",
    "MatchGame",
    "MatchKind",
    "MatchRow",
    "MatchScore",
    "ModelName",
    "ModelRow",
    "Pair",
    "PartitionDrop",
    "PlayerResult",
    "Promotion",
    "PromotionRow",
    "RatingPlace",
    "RatingRow",
    "RecentPlay",
    "RemovableModel",
    "ResignRow",
    "SaveStatus",
    "StoredGame",
    "Submission",
    "SubmitStatus",
    "Summary",
    "Variant",
    "VariantRow",
    "Verdict",
    "WindowBlocker",
    "WrongAnswer",
    "check_database",
    "libpq_url",
    "match_seed",
    "migrate",
    "without_password",
]
