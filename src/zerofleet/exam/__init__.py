"""The exam: how often a player errs where perfect play is known.

Perfect play is known here of two games and of the end of a third, and their exams differ, because
their sizes do:

- **tic_tac_toe** (``exam/lines.py``): the player meets every line of play an opponent can choose,
  as both colours. A position of the exam is one finished game; an error is a game the player lost.
- **connect_four** (``exam/sample.py``, ``exam/good_play.py``): a fixed sample of positions, of
  random play or near good play, whose legal actions differ in what perfect play makes of them. An
  error is an action whose outcome of the game is worse than the best one there. Whole games against
  the solver are in ``exam/perfect_play.py``.
- **othello** (``exam/sample.py``): likewise, positions of the last 6 to 12 empty squares.

Where it is not known there may be a program to play against: ``exam/gnu_go.py``.

In all of them the player answers as it would in earnest: no noise, temperature 0 (the most visited
action), no random symmetry, so that one model gives one result.
"""

from zerofleet.exam.examine import ExamResult, PositionKind, examine, has_exam, position_kinds
from zerofleet.exam.perfect_play import SOLVER_CHOICES, PerfectPlay, play_first, play_second

__all__ = [
    "SOLVER_CHOICES",
    "ExamResult",
    "PerfectPlay",
    "PositionKind",
    "examine",
    "has_exam",
    "play_first",
    "play_second",
    "position_kinds",
]
