"""The users of Redis, and the commands and keys that each service may use."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from zerofleet.errors import ConfigError
from zerofleet.secrets.files import read_lines

_BEST = "zerofleet:*:best"
_BEATS = "zerofleet:*:heartbeat:*"
_INFERENCE_BEATS = "zerofleet:*:heartbeat:inference:*"
_TRAINERS_BEAT = "zerofleet:*:heartbeat:trainer:*"
_CONNECT = "+ping +select +client|setname"

# The user of a heartbeat also writes the history of its figures, which only the console and the
# page read. A selector limits those commands to those keys.
_NOTES = "zerofleet:*:history:{service}:*"
_BEAT = f"%W~zerofleet:*:heartbeat:{{service}}:* +set (%W~{_NOTES} +xadd +expire)"
_READ_NOTES = f"(%R~{_NOTES.format(service='*')} +xrange)"
# Readers attempt a write to find out whether Redis accepts writes. LPUSHX appends to an existing
# list only, and no user may create one at this key.
_PROBE = "(%W~zerofleet:*:probe +lpushx)"
_READ_BEATS = f"%R~{_BEATS} +scan +mget +pttl {_PROBE}"
_READ_BEST = f"%R~{_BEST} +hgetall"

RULES: Mapping[str, str] = MappingProxyType(
    {
        "worker": f"{_BEAT.format(service='selfplay')} %R~{_TRAINERS_BEAT} +mget {_PROBE}"
        f" {_READ_BEST}",
        "inference": f"{_BEAT.format(service='inference')} {_READ_BEST}",
        # The trainer reads what the inference replicas run on.
        "trainer": f"{_BEAT.format(service='trainer')} %R~{_INFERENCE_BEATS} +scan +mget +pttl"
        f" {_PROBE}",
        # Scripts move the pointer; they can do no more than this user.
        "evaluator": f"{_BEAT.format(service='evaluator')} ~{_BEST} +hgetall +eval +hget +hmget"
        " +hset +del",
        "autoscaler": f"{_BEAT.format(service='autoscaler')} {_READ_BEATS}",
        # The dashboard reads what the console reads, and sends a heartbeat without a history.
        "dashboard": f"%W~zerofleet:*:heartbeat:dashboard:* +set {_READ_BEATS} {_READ_BEST}"
        f" {_READ_NOTES}",
        "console": f"{_READ_BEATS} {_READ_BEST} {_READ_NOTES}",
        # Maintains the server, and cannot read stored values.
        "operator": "+acl|load +acl|log +acl|whoami +info +client|list",
    }
)
"""Permissions of each user, in Redis' own syntax, in addition to connecting; others have none."""


def acl_file(passwords: Path) -> str:
    """Return an ACL file for the users that have a password file.

    Args:
        passwords: folder with a file for each user; each line is one of that user's passwords.

    Raises:
        ConfigError: there is none, or one cannot be used.
    """
    lines = ["user default off resetchannels -@all"]
    for user, rules in RULES.items():
        path = passwords / user
        if path.exists():
            lines.append(f"user {user} on resetchannels -@all {_digests(path)} {_CONNECT} {rules}")
    if len(lines) == 1:
        raise ConfigError(
            f"--passwords {passwords} has no file named after a user: {', '.join(RULES)}"
        )
    return "\n".join(lines) + "\n"


def _digests(path: Path) -> str:
    passwords = read_lines(path)
    if not passwords:
        raise ConfigError(f"the file {path} is empty: each of its lines must be a password")
    return " ".join(f"#{hashlib.sha256(each.encode()).hexdigest()}" for each in passwords)
