"""Things that tests need and a machine may lack."""

import os
from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import pytest


def skipped_line(reports: Iterable[pytest.TestReport]) -> str:
    """Return one line with the number of skipped tests for each reason; empty when none was."""
    places = (report.longrepr for report in reports)
    reasons = Counter(
        str(place[2]).removeprefix("Skipped: ") for place in places if isinstance(place, tuple)
    )
    counts = (f"{count} × {reason}" for reason, count in reasons.most_common())
    return f"Skipped: {'; '.join(counts)}" if reasons else ""


def is_missing(what: str, needed: str) -> NoReturn:
    """Skip for want of something; end where it is needed.

    Args:
        what: is missing, and what to do.
        needed: variable of the environment that the target of these tests sets.
    """
    if os.environ.get(needed):
        pytest.exit(what, returncode=2)
    pytest.skip(what)
