"""The record of every run, in Postgres."""

from zerofleet.database.connection import libpq_url, without_password
from zerofleet.database.database import (
    Database,
    EvaluatorDatabase,
    InferenceDatabase,
    SelfplayDatabase,
    Summary,
    TrainerDatabase,
)
from zerofleet.database.finished_games import FinishedGames, Submission, SubmitStatus
from zerofleet.database.matches import (
    MatchGame,
    MatchKind,
    MatchRow,
    MatchScore,
    ModelName,
    PlayerResult,
    RatingPlace,
    RatingRow,
    Verdict,
    match_seed,
)
from zerofleet.database.metrics import (
    ExamFigures,
    ExamRow,
    GroupErrors,
    RecentPlay,
    WrongAnswer,
)
from zerofleet.database.migrate import check_database, migrate
from zerofleet.database.models import ModelRow, Variant, VariantRow
from zerofleet.database.origins import Origin
from zerofleet.database.promotions import Promotion, PromotionChain, PromotionRow
from zerofleet.database.resign_threshold import Resignations, ResignRow, ResignThreshold
from zerofleet.database.retention import Kept, PartitionDrop, RemovableModel, Retentions
from zerofleet.database.stored_restarts import RestartList, StoredRestarts, WritableRestarts
from zerofleet.database.unfinished_games import GameLeases, SaveStatus
from zerofleet.database.window_games import (
    StoredGame,
    WindowBlocker,
    WindowGames,
    WindowPage,
    add_to_buffer,
)

__all__ = [
    "Database",
    "EvaluatorDatabase",
    "ExamFigures",
    "ExamRow",
    "FinishedGames",
    "GameLeases",
    "GroupErrors",
    "InferenceDatabase",
    "Kept",
    "MatchGame",
    "MatchKind",
    "MatchRow",
    "MatchScore",
    "ModelName",
    "ModelRow",
    "Origin",
    "PartitionDrop",
    "PlayerResult",
    "Promotion",
    "PromotionChain",
    "PromotionRow",
    "RatingPlace",
    "RatingRow",
    "RecentPlay",
    "RemovableModel",
    "ResignRow",
    "ResignThreshold",
    "Resignations",
    "RestartList",
    "Retentions",
    "SaveStatus",
    "SelfplayDatabase",
    "StoredGame",
    "StoredRestarts",
    "Submission",
    "SubmitStatus",
    "Summary",
    "TrainerDatabase",
    "Variant",
    "VariantRow",
    "Verdict",
    "WindowBlocker",
    "WindowGames",
    "WindowPage",
    "WritableRestarts",
    "WrongAnswer",
    "add_to_buffer",
    "check_database",
    "libpq_url",
    "match_seed",
    "migrate",
    "without_password",
]
