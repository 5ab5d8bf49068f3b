"""Give each service a folder with its own secrets alone: ``share_secrets.py ALL FOR``.

ALL is what ``python -m zerofleet.secrets`` makes; FOR has a folder for each consumer, which in
Compose is a volume that no other service mounts. Safe to repeat; files that differ are replaced.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

# name in the consumer's folder -> path below ALL; a folder is given whole.
Share = dict[str, str]


def of_service(role: str, user: str, **more: str) -> Share:
    """What a service needs to reach the stores, and more."""
    return {"database_password": f"postgres/{role}", "redis_password": f"redis/{user}", **more}


SHARES: dict[str, Share] = {
    "postgres": {"database_password": "postgres/zerofleet"},
    "redis": {"users.acl": "redis/users.acl"},
    "migrate": {
        "database_password": "postgres/zerofleet",
        "roles/zerofleet_worker": "postgres/zerofleet_worker",
        "roles/zerofleet_trainer": "postgres/zerofleet_trainer",
        "roles/zerofleet_evaluator": "postgres/zerofleet_evaluator",
        "roles/zerofleet_console": "postgres/zerofleet_console",
        "roles/zerofleet_visitor": "postgres/zerofleet_visitor",
    },
    "inference": of_service(
        "zerofleet_worker", "inference", tls="tls/inference", **{"roles.toml": "tokens/roles.toml"}
    ),
    "selfplay": of_service("zerofleet_worker", "worker", token="tokens/worker", tls="tls/selfplay"),
    "trainer": of_service("zerofleet_trainer", "trainer"),
    "evaluator": of_service(
        "zerofleet_evaluator", "evaluator", token="tokens/worker", tls="tls/evaluator"
    ),
    "dashboard": of_service(
        "zerofleet_console",
        "dashboard",
        token="tokens/client",
        tls="tls/dashboard",
        visitor_database_password="postgres/zerofleet_visitor",
        **{"roles.toml": "tokens/roles.toml"},
    ),
    "tools": of_service(
        "zerofleet_console",
        "console",
        token="tokens/client",
        viewer_token="tokens/viewer",
        admin_token="tokens/admin",
        tls="tls/client",
    ),
    "grafana": {
        "database_password": "postgres/zerofleet_console",
        "admin_password": "grafana/admin",
    },
}
# Each folder is its consumer's alone, so who may read is decided by who mounts it: images of others
# run as users that we do not know.
FILE_MODE = 0o444


def main(everything: Path, consumers: Path) -> None:
    """Make what is missing, and copy."""
    make_once(everything / "grafana" / "admin")
    for consumer, share in SHARES.items():
        for name, source in share.items():
            give(everything / source, consumers / consumer / name)


def make_once(path: Path) -> None:
    """A random password, unless there is one."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, exist_ok=True)
        replace(path, secrets.token_urlsafe(24).encode() + b"\n", 0o400)


def give(source: Path, target: Path) -> None:
    """Copy a file, or the files of a folder, where they are not the same already."""
    if source.is_dir():
        for file in sorted(source.iterdir()):
            give(file, target / file.name)
        return
    content = source.read_bytes()
    if not target.exists() or target.read_bytes() != content:
        make_open(target.parent)
        replace(target, content, FILE_MODE)
        sys.stdout.write(f"gave {target.parent.name}/{target.name}\n")


def make_open(folder: Path) -> None:
    """Make a folder that every user may enter, whatever the umask is."""
    if not folder.exists():
        make_open(folder.parent)
        folder.mkdir()
        folder.chmod(0o755)


def replace(path: Path, content: bytes, mode: int) -> None:
    """Write a file in one step: its reader may be running."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
    temporary.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
