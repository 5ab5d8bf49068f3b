"""The record of every run, in Postgres."""

from zerofleet.database.address import libpq_url, without_password
from zerofleet.database.database import Database
from zerofleet.database.games import SaveStatus
from zerofleet.database.matches import MatchGame, MatchRow, MatchScore, MatchTest, Pair
from zerofleet.database.metrics import ExamRow
from zerofleet.database.migrate import migrate
from zerofleet.database.models import ModelRow
from zerofleet.database.promotions import Promotion, PromotionRow
from zerofleet.database.rating_games import (
    AnchorRatingRow,
    PlayerResult,
    RatingGame,
    RatingPlace,
    RatingRow,
)
from zerofleet.database.resignation import ResignRow
from zerofleet.database.retention import Kept, PartitionDrop, RemovableModel
from zerofleet.database.submission import Submission, SubmitStatus
from zerofleet.database.summary import Summary
from zerofleet.database.variant_matches import VariantVerdict
from zerofleet.database.variants import NewVariant, VariantRow
from zerofleet.database.verdicts import Grounds, Verdict
from zerofleet.database.window import GameWindow, StoredGame, WindowBlocker

__all__ = [
    "AnchorRatingRow",
    "Database",
    "ExamRow",
    "GameWindow",
    "Grounds",
    "Kept",
    "MatchGame",
    "MatchRow",
    "MatchScore",
    "MatchTest",
    "ModelRow",
    "NewVariant",
    "Pair",
    "PartitionDrop",
    "PlayerResult",
    "Promotion",
    "PromotionRow",
    "RatingGame",
    "RatingPlace",
    "RatingRow",
    "RemovableModel",
    "ResignRow",
    "SaveStatus",
    "StoredGame",
    "Submission",
    "SubmitStatus",
    "Summary",
    "VariantRow",
    "VariantVerdict",
    "Verdict",
    "WindowBlocker",
    "libpq_url",
    "migrate",
    "without_password",
]
