"""The exam: a player's error rate where perfect play is known.

Perfect play is known for all positions of two games, and for some positions of two others:

- **tic_tac_toe** (``exam/lines.py``): the player meets every line of play that an opponent can
  choose, as both colours. A position of the exam is one finished game. An error is a game that the
  player lost.
- **connect_four** (``exam/sample.py``): a fixed sample of positions, from random play or near good
  play, whose legal actions differ in their outcome under perfect play. An error is an action whose
  outcome is worse than the best one. Whole games against the solver are in
  ``exam/solver_games.py``.
- **othello** (``exam/sample.py``): a sample of positions with 6 to 12 empty squares.
- **chess** (``exam/chess_positions.py``): fixed samples of endgames with three or four pieces, and
  of forced mates in one to three moves. An error is a move with a worse outcome than the best one,
  or one that misses the shortest mate. Errors are also counted by material and by length of the
  mate. Whole games from won endings are in ``exam/chess_endings.py``.
- **A game in Python**, if its class defines ``perfect_outcomes``: every line of play like
  tic-tac-toe, if it has at most 10,000 positions; else a sample of positions of random play.

Where perfect play is not known, there may be a program to play against: ``exam/gnu_go.py``.

In every exam the player is deterministic: no noise, temperature 0 (the best action), no random
symmetry. So one model gives one result.
"""

from zerofleet.exam.chess_endings import ENDINGS, play_endings
from zerofleet.exam.examine import (
    OWN_EXAM_HINT,
    ExamResult,
    PositionKind,
    examine,
    has_exam,
    position_kinds,
)
from zerofleet.exam.solver_games import SOLVER_CHOICES, PerfectPlay, play_first, play_second

__all__ = [
    "ENDINGS",
    "OWN_EXAM_HINT",
    "SOLVER_CHOICES",
    "ExamResult",
    "PerfectPlay",
    "PositionKind",
    "examine",
    "has_exam",
    "play_endings",
    "play_first",
    "play_second",
    "position_kinds",
]
