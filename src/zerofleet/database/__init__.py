"""The record of every run, in Postgres."""

from zerofleet.database.address import libpq_url, without_password
from zerofleet.database.database import Database
from zerofleet.database.matches import (
    GateRule,
    MatchGame,
    MatchKind,
    MatchRow,
    MatchScore,
    ModelName,
    match_seed,
)
from zerofleet.database.metrics import ExamFigures, ExamRow, WrongAnswer
from zerofleet.database.migrate import check_database, migrate
from zerofleet.database.models import ModelRow
from zerofleet.database.promotions import Promotion, PromotionRow
from zerofleet.database.ratings import PlayerResult, RatingPlace, RatingRow
from zerofleet.database.recent_play import RecentPlay
from zerofleet.database.retention import Kept, PartitionDrop, RemovableModel
from zerofleet.database.submission import Submission, SubmitStatus
from zerofleet.database.summary import Summary
from zerofleet.database.v_resign import ResignRow
from zerofleet.database.variants import NewVariant, VariantRow
from zerofleet.database.verdicts import Grounds, Pair, Verdict
from zerofleet.database.window_games import GameWindow, StoredGame, WindowBlocker
from zerofleet.database.worker_games import SaveStatus

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
    "NewVariant",
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
