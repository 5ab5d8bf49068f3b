"""Each consumer's folder has what it needs, and nothing of anybody else's."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy" / "compose" / "share_secrets.py"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """All secrets, and the folders for consumers."""
    everything, consumers = tmp_path_factory.mktemp("all"), tmp_path_factory.mktemp("for")
    subprocess.run([sys.executable, "-m", "zerofleet.secrets", everything], check=True, umask=0o077)
    share(everything, consumers)
    return everything, consumers


def share(everything: Path, consumers: Path) -> str:
    command = [sys.executable, str(SCRIPT), str(everything), str(consumers)]
    return subprocess.run(command, check=True, capture_output=True, text=True, umask=0o077).stdout


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_worker_has_its_own_passwords_a_token_and_a_certificate(
    shared: tuple[Path, Path],
) -> None:
    everything, consumers = shared
    mine = files(consumers / "selfplay")
    assert mine == {
        "database_password": (everything / "postgres/zerofleet_worker").read_text(),
        "redis_password": (everything / "redis/worker").read_text(),
        "token": (everything / "tokens/worker").read_text(),
        **{
            f"tls/{name}": (everything / "tls/selfplay" / name).read_text()
            for name in ("ca.crt", "tls.crt", "tls.key")
        },
    }


def test_nobody_else_has_the_owners_password_or_the_authoritys_key(
    shared: tuple[Path, Path],
) -> None:
    everything, consumers = shared
    holders = {
        secret: {
            consumer.name
            for consumer in consumers.iterdir()
            if (everything / secret).read_text() in files(consumer).values()
        }
        for secret in ("postgres/zerofleet", "postgres/zerofleet_trainer", "tls/ca.key")
    }
    assert holders == {
        "postgres/zerofleet": {"postgres", "migrate"},
        "postgres/zerofleet_trainer": {"migrate", "trainer"},
        "tls/ca.key": set(),
    }


def test_whoever_mounts_a_folder_can_read_it(shared: tuple[Path, Path]) -> None:
    """Images of others run as users that are not ours, whatever the umask was."""
    for path in shared[1].rglob("*"):
        assert path.stat().st_mode & 0o004, path
        assert path.is_dir() or path.stat().st_mode & 0o222 == 0, path


def test_a_second_time_changes_nothing_and_a_new_password_is_passed_on(
    shared: tuple[Path, Path],
) -> None:
    everything, consumers = shared
    assert share(everything, consumers) == ""
    password = everything / "redis" / "trainer"
    password.chmod(0o600)
    password.write_text("another\n")
    assert share(everything, consumers) == "gave trainer/redis_password\n"
    assert (consumers / "trainer" / "redis_password").read_text() == "another\n"
