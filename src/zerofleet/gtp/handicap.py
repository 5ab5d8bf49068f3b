"""The points of fixed handicap stones (Farnebäck 2002, GTP version 2, section 4.1.1)."""

from __future__ import annotations

from zerofleet.gtp.protocol import GtpError

_COLUMNS = "ABCDEFGHJKLMNOPQRST"
# By number of stones, as (column, row) of a grid of three by three; row 0 is the lowest.
_CORNERS = ((0, 0), (2, 2), (0, 2), (2, 0))
_SIDES = ((0, 1), (2, 1), (1, 0), (1, 2))
_CENTRE = (1, 1)


def most_stones(size: int) -> int:
    """How many fixed stones a board takes; 0 for one below 7x7."""
    if size < 7:
        return 0
    return 9 if size >= 9 and size % 2 == 1 else 4


def fixed_handicap(size: int, stones: int) -> list[str]:
    """The vertices of so many stones.

    Raises:
        GtpError: the board takes no such number.
    """
    most = most_stones(size)
    if not 2 <= stones <= most:
        known = f"give 2 to {most}" if most else "use set_free_handicap"
        raise GtpError(f"invalid number of stones: {stones} on {size}x{size}: {known}")
    edge = 3 if size >= 13 else 2  # lines between a corner stone and the border
    lines = (edge, size // 2, size - 1 - edge)
    centred = stones in (5, 7, 9)
    points = [*_CORNERS, *_SIDES][: stones - centred] + [_CENTRE] * centred
    return [f"{_COLUMNS[lines[column]]}{lines[row] + 1}" for column, row in points]
