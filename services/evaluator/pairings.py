"""Who plays whom in the rating pool: a function of the chain of promotions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pairing:
    """A promoted model and an opponent of it, both by name."""

    player: str
    opponent: str

    @property
    def models(self) -> list[str]:
        """Those of the two that are models."""
        return [name for name in (self.player, self.opponent) if name.isdecimal()]

    def sides(self, color: int) -> tuple[str, str]:
        """The first player and the second; at colour 0 ``player`` moves first."""
        return (self.opponent, self.player) if color else (self.player, self.opponent)

    def versions(self, color: int) -> tuple[int, int]:
        """Model versions of the first player and the second; 0 for an anchor."""
        first, second = (int(side) if side.isdecimal() else 0 for side in self.sides(color))
        return first, second

    def seed(self, run_seed: int) -> int:
        """Of the pairing's openings: 63 bits, other ones for each pairing and than any match's."""
        name = f"rating {run_seed} {self.player} {self.opponent}"
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


def pairings(promoted: Iterable[int], back: Iterable[int], anchors: Sequence[str]) -> list[Pairing]:
    """All pairings of a run, those of the newest model first.

    Opponents further back and fixed anchors keep the scale from drifting: with the model before
    alone, errors add up along the chain.

    Args:
        promoted: versions in the order of their promotions; going back to one adds nothing.
        back: opponents are the models so many promotions earlier.
        anchors: fixed opponents.
    """
    chain = list(dict.fromkeys(promoted))
    found: list[Pairing] = []
    for place in reversed(range(len(chain))):
        earlier = [chain[place - step] for step in sorted(set(back)) if 0 < step <= place]
        opponents = [*map(str, earlier), *dict.fromkeys(anchors)]
        found += [Pairing(str(chain[place]), opponent) for opponent in opponents]
    return found
