"""What KataGo's extensions of GTP ask for, in its formats (KataGo, docs/GTP_Extensions.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from zerofleet.games.go_rules import GoRules
from zerofleet.gtp.protocol import GtpError
from zerofleet.rpc.player_service import PositionPrediction

_SYMMETRIES = 8

# What KataGo's names stand for: ko, scoring, suicide, tax, bonus for handicap stones, button.
_FIELDS = ("ko", "scoring", "suicide", "tax", "whiteHandicapBonus", "hasButton")
_NAMED_RULES: dict[str, tuple[str, str, bool, str, str, bool]] = {
    "tromp-taylor": ("POSITIONAL", "AREA", True, "NONE", "0", False),
    "chinese": ("SIMPLE", "AREA", False, "NONE", "N", False),
    "chinese-ogs": ("POSITIONAL", "AREA", False, "NONE", "N", False),
    "chinese-kgs": ("POSITIONAL", "AREA", False, "NONE", "N", False),
    "japanese": ("SIMPLE", "TERRITORY", False, "SEKI", "0", False),
    "korean": ("SIMPLE", "TERRITORY", False, "SEKI", "0", False),
    "stone-scoring": ("SIMPLE", "AREA", False, "ALL", "0", False),
    "aga": ("SITUATIONAL", "AREA", False, "NONE", "N-1", False),
    "bga": ("SITUATIONAL", "AREA", False, "NONE", "N-1", False),
    "new-zealand": ("SITUATIONAL", "AREA", True, "NONE", "0", False),
    "aga-button": ("SITUATIONAL", "AREA", False, "NONE", "N-1", True),
}

GOGUI_COMMANDS = (
    "string/Rules/kata-get-rules",
    "string/Score as it lies/final_score",
    "plist/Stones alive/final_status_list alive",
    "pstring/Move it would play/reg_genmove %c",
    "string/Network without search/kata-raw-nn 0",
    "string/Simulations of a move/kata-get-param maxVisits",
    "none/Set simulations of a move/kata-set-param maxVisits %s",
)
"""``type/label/command`` of each, as GoGui reads them (its manual, "Analyze Commands")."""


def kata_rules(rules: GoRules) -> str:
    """The rules as KataGo's JSON."""
    return json.dumps(_values(rules), sort_keys=True, separators=(",", ":"))


def require_rules(asked: str, rules: GoRules) -> None:
    """Refuse other rules than those that the model plays by.

    Args:
        asked: one of KataGo's names, or its JSON; a field that it leaves out may be anything.
        rules: the model's.

    Raises:
        GtpError: they are others, or none.
    """
    ours = _values(rules)
    for name, value in _asked(asked).items():
        if name not in ours:
            raise GtpError(f"unknown rule '{name}': there are {', '.join(sorted(ours))}")
        if value != ours[name]:
            is_said = f"{name} {json.dumps(ours[name])}"
            raise GtpError(f"the model plays with {is_said}, not {json.dumps(value)}")


def _values(rules: GoRules) -> dict[str, Any]:
    values = dict(zip(_FIELDS, _NAMED_RULES["tromp-taylor"], strict=True))
    return {**values, "suicide": rules.suicide}


def _asked(text: str) -> dict[str, Any]:
    if not text.startswith("{"):
        named = _NAMED_RULES.get(text.lower())
        if named is None:
            names = ", ".join(_NAMED_RULES)
            raise GtpError(f"unknown rules '{text}': give JSON, or one of {names}")
        return dict(zip(_FIELDS, named, strict=True))
    try:
        return cast("dict[str, Any]", json.loads(text))
    except ValueError as error:
        raise GtpError(f"the rules are no JSON: {error}") from error


def parse_symmetries(arguments: Sequence[str]) -> range:
    """The symmetries that ``kata-raw-nn`` is asked for.

    Raises:
        GtpError: neither a number from 0 to 7 nor "all".
    """
    if list(arguments) == ["all"]:
        return range(_SYMMETRIES)
    if len(arguments) != 1 or arguments[0] not in map(str, range(_SYMMETRIES)):
        raise GtpError("give a symmetry, 0 to 7, or all")
    return range(int(arguments[0]), int(arguments[0]) + 1)


def transformed(action: int, symmetry: int, size: int) -> int:
    """An action as a symmetry of the square board has it; a pass stays one.

    Args:
        action: ``size * row + column``, or the pass.
        symmetry: bit 0 turns rows round, bit 1 columns, bit 2 exchanges both.
        size: of the board.
    """
    if action == size * size:
        return action
    row, column = divmod(action, size)
    row = size - 1 - row if symmetry & 1 else row
    column = size - 1 - column if symmetry & 2 else column
    return size * column + row if symmetry & 4 else size * row + column


def raw_nn_text(prediction: PositionPrediction, symmetry: int, size: int) -> str:
    """A network's opinion as ``kata-raw-nn`` writes it, as far as ours has one.

    It foresees neither lead nor ownership. A drawn game is half a win and half a loss.

    Args:
        prediction: of the position as the symmetry has it.
        symmetry: undone here.
        size: of the board.
    """
    value = prediction.value if prediction.to_play == 1 else -prediction.value
    priors = dict(zip(prediction.actions, prediction.priors, strict=True))

    def policy(action: int) -> str:
        prior = priors.get(transformed(action, symmetry, size))
        return "NAN" if prior is None else f"{prior:.6f}"

    rows = (range(size * row, size * (row + 1)) for row in range(size))
    return "\n".join(
        (
            f"symmetry {symmetry}",
            f"whiteWin {(1 + value) / 2:.6f}",
            f"whiteLoss {(1 - value) / 2:.6f}",
            "noResult 0.000000",
            "policy",
            *(" ".join(map(policy, row)) for row in rows),
            f"policyPass {policy(size * size)}",
        )
    )
