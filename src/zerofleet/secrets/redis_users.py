"""The users of Redis: which command each service gives, on which keys."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from zerofleet.errors import ConfigError
from zerofleet.secrets.files import read_lines

_BEST = "zerofleet:*:best"
_BEATS = "zerofleet:*:heartbeat:*"
_TRAINERS_BEAT = "zerofleet:*:heartbeat:trainer:*"
_CONNECT = "+ping +select +client|setname"

# What is noted of the figures is written by the same user as the heartbeat, and read by the
# console and the page alone: a selector keeps those commands to those keys.
_NOTES = "zerofleet:*:history:{service}:*"
_BEAT = f"%W~zerofleet:*:heartbeat:{{service}}:* +set (%W~{_NOTES} +xadd +expire)"
_READ_NOTES = f"(%R~{_NOTES.format(service='*')} +xrange)"
# Readers ask for a write to know whether Redis takes any. LPUSHX adds to a list that exists, and no
# user may make one at this key.
_PROBE = "(%W~zerofleet:*:probe +lpushx)"
_READ_BEATS = f"%R~{_BEATS} +scan +mget +pttl {_PROBE}"
_READ_BEST = f"%R~{_BEST} +hgetall"

RULES: Mapping[str, str] = MappingProxyType(
    {
        "worker": f"{_BEAT.format(service='selfplay')} %R~{_TRAINERS_BEAT} +mget {_PROBE}"
        f" {_READ_BEST}",
        "inference": f"{_BEAT.format(service='inference')} {_READ_BEST}",
        "trainer": _BEAT.format(service="trainer"),
        # The pointer moves by scripts, which can do no more than this user can.
        "evaluator": f"{_BEAT.format(service='evaluator')} ~{_BEST} +hgetall +eval +hget +hmget"
        " +hset +del",
        "autoscaler": f"{_BEAT.format(service='autoscaler')} {_READ_BEATS}",
        # The page: what the console reads, and a heartbeat, of which nothing is noted.
        "dashboard": f"%W~zerofleet:*:heartbeat:dashboard:* +set {_READ_BEATS} {_READ_BEST}"
        f" {_READ_NOTES}",
        "console": f"{_READ_BEATS} {_READ_BEST} {_READ_NOTES}",
        # Looks after the server, and sees nothing that is stored.
        "operator": "+acl|load +acl|log +acl|whoami +info +client|list",
    }
)
"""What each user may do, in Redis' own words, besides connecting; any other user may do nothing."""


def acl_file(passwords: Path) -> str:
    """An ACL file for the users who have a password file.

    Args:
        passwords: folder with a file for each user; each line is a password of his.

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
            f"--passwords {passwords} has no file that is named like a user: {', '.join(RULES)}"
        )
    return "\n".join(lines) + "\n"


def _digests(path: Path) -> str:
    passwords = read_lines(path)
    if not passwords:
        raise ConfigError(f"the file {path} is empty: each of its lines must be a password")
    return " ".join(f"#{hashlib.sha256(each.encode()).hexdigest()}" for each in passwords)
