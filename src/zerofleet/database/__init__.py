"""The record of every run, in Postgres."""

from zerofleet.database.address import libpq_url, without_password
from zerofleet.database.database import Database
from zerofleet.database.matches import MatchGame, MatchRow, MatchScore, PairResult, Verdict
from zerofleet.database.metrics import ExamRow, RatingRow
from zerofleet.database.migrate import migrate
from zerofleet.database.models import ModelRow
from zerofleet.database.promotions import Promotion
from zerofleet.database.submission import Submission, SubmitStatus
from zerofleet.database.summary import Summary
from zerofleet.database.window import GameWindow, StoredGame

__all__ = [
    "Database",
    "ExamRow",
    "GameWindow",
    "MatchGame",
    "MatchRow",
    "MatchScore",
    "ModelRow",
    "PairResult",
    "Promotion",
    "RatingRow",
    "StoredGame",
    "Submission",
    "SubmitStatus",
    "Summary",
    "Verdict",
    "libpq_url",
    "migrate",
    "without_password",
]
