"""``python -m zerofleet.secrets``: all that a fleet needs, made once, for the right eyes."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from zerofleet.errors import ConfigError
from zerofleet.secrets import authority
from zerofleet.secrets.files import Followed, read_secret, split_password_file, with_password_file
from zerofleet.secrets.fleet_secrets import CLIENTS, POSTGRES, SERVERS, FleetSecrets
from zerofleet.secrets.redis_users import RULES
from zerofleet.secrets.tokens import ROLES, add_token, find_token, read_tokens


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_everything_is_there_and_for_the_right_eyes(fleet_secrets: Path) -> None:
    names = {f"postgres/{role}" for role in POSTGRES}
    names |= {f"redis/{user}" for user in RULES} | {"redis/users.acl"}
    names |= {f"tokens/{role}" for role in ROLES} | {"tokens/roles.toml"}
    names |= {"tls/ca.crt", "tls/ca.key"}
    for name in (*SERVERS, *CLIENTS):
        names |= {f"tls/{name}/{file}" for file in ("tls.crt", "tls.key", "ca.crt")}
    assert contents(fleet_secrets).keys() == names
    for path in fleet_secrets.rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        expected = {"ca.key": 0o400, "roles.toml": 0o640}.get(path.name, 0o440)
        assert mode == (0o750 if path.is_dir() else expected), path
    passwords = [read_secret(fleet_secrets / "postgres" / role) for role in POSTGRES]
    assert len(set(passwords)) == len(POSTGRES)
    assert min(map(len, passwords)) >= 40
    accepted = read_tokens(fleet_secrets / "tokens" / "roles.toml")
    for role in ROLES:
        found = find_token(accepted, read_secret(fleet_secrets / "tokens" / role))
        assert found is not None
        assert found.role == role


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    FleetSecrets(tmp_path).make()
    before = contents(tmp_path)
    again = FleetSecrets(tmp_path)
    again.make()
    assert (again.made, contents(tmp_path)) == ([], before)


def test_what_is_missing_is_made_and_what_is_there_stays(tmp_path: Path) -> None:
    FleetSecrets(tmp_path).make()
    before = contents(tmp_path)
    anns = add_token(tmp_path / "tokens" / "roles.toml", "ann", "client")
    for name in ("redis/worker", "tokens/worker", "tls/selfplay/tls.key"):
        (tmp_path / name).unlink()
    fleet = FleetSecrets(tmp_path)
    fleet.make()
    assert set(fleet.made) == {
        *("redis/worker", "redis/users.acl", "tokens/worker", "tokens/roles.toml"),
        *("tls/selfplay/tls.key", "tls/selfplay/tls.crt"),
    }
    after = contents(tmp_path)
    assert {name for name in before if before[name] != after[name]} == set(fleet.made)
    accepted = read_tokens(tmp_path / "tokens" / "roles.toml")
    for token in (anns, read_secret(tmp_path / "tokens" / "worker")):
        assert find_token(accepted, token) is not None


def test_a_token_that_was_withdrawn_stays_so(tmp_path: Path) -> None:
    """Though its file is there, and this runs before every start."""
    FleetSecrets(tmp_path).make()
    path = tmp_path / "tokens" / "roles.toml"
    _, *others = path.read_text().split("\n\n")
    path.write_text("\n\n".join(others))
    FleetSecrets(tmp_path).make()
    left = read_tokens(path)
    assert find_token(left, read_secret(tmp_path / "tokens" / "worker")) is None
    assert [token.role for token in left] == ["viewer", "client", "admin"]
    path.unlink()
    FleetSecrets(tmp_path).make()
    assert [token.role for token in read_tokens(path)] == list(ROLES)


def test_without_the_authoritys_key_what_is_there_stays(tmp_path: Path) -> None:
    FleetSecrets(tmp_path).make()
    (tmp_path / "tls" / "ca.key").unlink()
    before = contents(tmp_path)
    FleetSecrets(tmp_path).make()
    assert contents(tmp_path) == before
    (tmp_path / "tls" / "selfplay" / "tls.crt").unlink()
    with pytest.raises(ConfigError, match=r"tls/selfplay has no .*tls/ca\.key, .* is missing"):
        FleetSecrets(tmp_path).make()
    assert (tmp_path / "tls" / "ca.crt").read_bytes() == before["tls/ca.crt"]


def test_a_token_is_added_to_a_file_that_ends_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "roles.toml"
    first = add_token(path, "ann", "client")
    path.write_text(path.read_text().rstrip())
    second = add_token(path, "ben", "client")
    names = [getattr(find_token(read_tokens(path), token), "name", "") for token in (first, second)]
    assert names == ["ann", "ben"]


def test_certificates_are_made_anew_before_they_end_and_for_other_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FleetSecrets(tmp_path).make()
    more = FleetSecrets(tmp_path, ["10.0.0.7", "play.example"])
    more.make()
    servers = {f"tls/{name}/{file}" for name in SERVERS for file in ("tls.crt", "tls.key")}
    assert set(more.made) == servers
    monkeypatch.setattr(authority, "RENEW_DAYS", 398)
    later = FleetSecrets(tmp_path, ["10.0.0.7", "play.example"])
    later.make()
    clients = {f"tls/{name}/{file}" for name in CLIENTS for file in ("tls.crt", "tls.key")}
    assert set(later.made) == servers | clients


def test_the_program_names_what_it_made_and_says_no_secret(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "secrets"
    command = [sys.executable, "-m", "zerofleet.secrets", str(folder), "--mode", "400"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    made = [line.removeprefix("made ") for line in done.stdout.splitlines()]
    assert sorted(made) == sorted(contents(folder))
    for name in ("postgres/zerofleet", "redis/worker", "tokens/admin"):
        assert read_secret(folder / name) not in done.stdout + done.stderr
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o400
    blocked = tmp_path / "file"
    blocked.write_text("")
    failed = subprocess.run(
        [*command[:3], str(blocked)], capture_output=True, text=True, check=False
    )
    assert failed.returncode == 2
    assert failed.stderr.startswith(f"cannot write secrets to {blocked}")
    assert failed.stderr.count("\n") == 1


def test_a_secret_is_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    for content in ("canary", "canary\n", "\n  canary \nother\n", "canary\r\n"):
        path.write_text(content)
        assert read_secret(path) == "canary"
    path.write_bytes(b"\xffcanary")
    with pytest.raises(ConfigError, match="is not UTF-8 text") as caught:
        read_secret(path)
    assert "canary" not in repr(caught.value.__context__) + str(caught.value)
    path.write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        read_secret(path)
    with pytest.raises(ConfigError, match="No such file"):
        read_secret(tmp_path / "none")


def test_a_followed_value_survives_what_is_no_good(tmp_path: Path) -> None:
    path, link, other = tmp_path / "a", tmp_path / "link", tmp_path / "b"
    path.write_text("one")
    link.symlink_to(path)
    followed = Followed([link], lambda: read_secret(link))
    assert followed.get() == "one"
    path.write_text("two-two")
    assert followed.get() == "two-two"
    path.write_text("")
    assert followed.get() == "two-two"
    other.write_text("three")  # as Kubernetes does: the link changes, in one step
    (tmp_path / "new").symlink_to(other)
    (tmp_path / "new").replace(link)
    assert followed.get() == "three"
    link.unlink()
    assert followed.get() == "three"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://worker@host:6379/0", "redis://worker@host:6379/0?password_file=/run/a%20b"),
        ("postgresql:///db", "postgresql:///db?password_file=/run/a%20b"),
        ("postgresql://h/d?sslmode=x", "postgresql://h/d?sslmode=x&password_file=/run/a%20b"),
        ("postgresql://h/d?password_file=old&a=b", "postgresql://h/d?a=b&password_file=/run/a%20b"),
    ],
)
def test_a_url_names_its_password_file(url: str, expected: str) -> None:
    named = with_password_file(url, Path("/run/a b"))
    assert named == expected
    bare, path = split_password_file(named)
    assert path == Path("/run/a b")
    assert bare == split_password_file(url)[0]
    assert with_password_file(url, None) == url


def test_the_settings_of_a_process_put_it_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from zerofleet.config import ProcessSettings

    for name, value in {
        "DATABASE_URL": "postgresql://zerofleet_worker@db/zerofleet",
        "DATABASE_PASSWORD_FILE": "/run/secrets/postgres",
        "REDIS_PASSWORD_FILE": "/run/secrets/redis",
        "TLS_FOLDER": "",
    }.items():
        monkeypatch.setenv(f"ZEROFLEET_{name}", value)
    settings = ProcessSettings(run_file=Path("run.toml"))
    assert settings.database_url == (
        "postgresql://zerofleet_worker@db/zerofleet?password_file=/run/secrets/postgres"
    )
    assert settings.redis_url == "redis://127.0.0.1:6379/0?password_file=/run/secrets/redis"
    assert settings.tls_folder is None
