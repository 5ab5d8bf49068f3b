"""How many rows a second a server could evaluate: what inference is sized by.

Neither a model thread's busy time nor its rows tell. On a GPU a batch costs nearly the
same whether it is full or not, and as nothing is waited for, a thread is busy with whatever there
is. So the cost of a batch is fitted as ``fixed + per_row * rows`` while it serves, and the capacity
is that of full batches one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

_MEMORY = 0.98  # of each look's weight that is left at the next: half of it after 34
_LEAST_SPREAD = 0.02  # of the mean: sizes more alike than this do not tell the two parts apart
_LEAST_SLOPE = 0.1  # of the mean cost of a row: a fit below it is an accident
_NEARLY_FULL = 0.9


@dataclass(frozen=True, slots=True)
class _Line:
    """Seconds of a batch by its rows."""

    fixed: float
    per_row: float

    def __call__(self, rows: float) -> float:
        return self.fixed + self.per_row * rows


class BatchCost:
    """Weighted least squares over the looks of the last minutes; the newest weigh most.

    A look is what batches were on average in a short time: means of points on a line lie on it.

    Args:
        linear: no part of the cost is fixed, as on CPUs; else that is unknown until batches of
            different sizes, or full ones, have run.
    """

    def __init__(self, *, linear: bool) -> None:
        self._line = _Line(0.0, 1.0) if linear else None  # its scale does not matter
        self._weight = self._rows = self._seconds = 0.0
        self._rows_rows = self._rows_seconds = 0.0

    def add(self, batches: int, rows: int, seconds: float) -> None:
        """Take in a look.

        Args:
            batches: that ran since the last look; of none nothing is learned.
            rows: of all of them.
            seconds: that all of them took.
        """
        if not batches or not rows or seconds <= 0:
            return
        mean_rows, mean_seconds = rows / batches, seconds / batches
        self._weight = _MEMORY * self._weight + 1
        self._rows = _MEMORY * self._rows + mean_rows
        self._seconds = _MEMORY * self._seconds + mean_seconds
        self._rows_rows = _MEMORY * self._rows_rows + mean_rows**2
        self._rows_seconds = _MEMORY * self._rows_seconds + mean_rows * mean_seconds
        self._fit()

    def rows_per_second(self, rows: int) -> float:
        """Of batches of so many rows one after the other; 0 while that is not known."""
        if not self._weight:
            return 0.0
        mean_rows, mean_seconds = self._rows / self._weight, self._seconds / self._weight
        line = self._line
        if line is None:
            return mean_rows / mean_seconds if mean_rows >= _NEARLY_FULL * rows else 0.0
        return rows / (line(rows) * mean_seconds / line(mean_rows))

    def _fit(self) -> None:
        """Keep to the last line where sizes are too much alike for a new one."""
        mean_rows, mean_seconds = self._rows / self._weight, self._seconds / self._weight
        variance = self._rows_rows / self._weight - mean_rows**2
        if variance < (_LEAST_SPREAD * mean_rows) ** 2:
            return
        covariance = self._rows_seconds / self._weight - mean_rows * mean_seconds
        steepest = mean_seconds / mean_rows  # nothing is fixed
        per_row = min(steepest, max(_LEAST_SLOPE * steepest, covariance / variance))
        self._line = _Line(mean_seconds - per_row * mean_rows, per_row)
