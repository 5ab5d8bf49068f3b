"""How long too many have been there, and how many were of use at the busiest moment since."""

from __future__ import annotations


class Quiet:
    """A time in which fewer would have done; while nobody can say, it stands still.

    Args:
        after: seconds that it must have lasted to count.
        settled: seconds for which means still hold something of the time before.
    """

    def __init__(self, after: float, settled: float) -> None:
        self._after = after
        self._settled = min(settled, after / 2)
        self._lasted = 0.0
        self._seen: float | None = None
        self._peak = 0.0

    def end(self) -> None:
        """More was of use."""
        self._lasted = self._peak = 0.0
        self._seen = None

    def stand_still(self) -> None:
        """Nobody can say: until the next look, time does not count."""
        self._seen = None

    def peak(self, seconds: float, use: float, *, quiet: bool) -> float | None:
        """The most that was of use in a time that has lasted long enough; None before.

        An answer that is not None ends that time: what follows from it begins a new one.

        Args:
            seconds: now.
            use: how many are of use now.
            quiet: whether that is less than there are.
        """
        if not quiet:
            self.end()
            return None
        if self._seen is not None:
            self._lasted += seconds - self._seen
        self._seen = seconds
        if self._lasted >= self._settled:
            self._peak = max(self._peak, use)
        if self._lasted < self._after:
            return None
        peak = self._peak
        self.end()
        return peak
