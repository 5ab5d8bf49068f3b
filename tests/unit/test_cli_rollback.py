"""Which model a rollback goes back to."""

from datetime import UTC, datetime

import pytest

from zerofleet.cli.rollback import chosen_version
from zerofleet.database import Promotion
from zerofleet.errors import ConfigError

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def chain(*versions: int) -> list[Promotion]:
    """Promotions in this order, newest first."""
    return [
        Promotion(seq, version, f"{version:064x}")
        for seq, version in reversed(list(enumerate(versions, 1)))
    ]


@pytest.mark.parametrize(
    ("promoted", "to", "version"),
    [
        ((1, 2, 5), None, 2),
        ((1, 2, 5, 2), None, 1),  # going back twice goes further back
        ((1, 2, 5, 2, 6), None, 2),  # 5 was given up before 6 came
        ((1, 2, 5), 1, 1),
        ((1, 2, 5, 2), 5, 5),
    ],
)
def test_the_model(promoted: tuple[int, ...], to: int | None, version: int) -> None:
    assert chosen_version("r", chain(*promoted), to) == version


@pytest.mark.parametrize(
    ("promoted", "to", "words"),
    [
        ((), None, "has promoted no model yet"),
        ((1,), None, "model 1 was promoted first: there is none before it"),
        ((1, 2, 1), None, "model 1 was promoted first"),
        ((1, 2), 2, "model 2 is the best of the run 'r' already"),
        ((1, 2, 4), 3, "model 3 was never promoted in the run 'r': give --to one of 1, 2"),
    ],
)
def test_no_model(promoted: tuple[int, ...], to: int | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        chosen_version("r", chain(*promoted), to)
