"""Commands that make secrets, and commands that use them, without ever saying one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from zerofleet.cli import app
from zerofleet.errors import ConfigError
from zerofleet.local.postgres import USERS, EmbeddedPostgres
from zerofleet.secrets.tokens import find_token, read_tokens


@pytest.fixture
def password_file(postgres: EmbeddedPostgres, tmp_path: Path) -> Callable[[str], Path]:
    """A plain file with the password that a role of the tests' server has."""

    def make(role: str) -> Path:
        stored = (postgres.folder / "passwords" / USERS[role]).read_text()
        path = tmp_path / f"{role}.password"
        path.write_text(stored.strip().rpartition(":")[2] + "\n")
        return path

    return make


@pytest.fixture
def bare_url(postgres: EmbeddedPostgres, database_url: str) -> Callable[[str], str]:
    """The test's database without any password."""
    name = urlsplit(database_url).path.lstrip("/")
    return lambda role: f"postgresql://{USERS[role]}@127.0.0.1:{postgres.port}/{name}"


def test_a_token_is_printed_once_and_kept_as_a_digest(tmp_path: Path) -> None:
    accepted = tmp_path / "roles.toml"
    tokens = {}
    for name, role in (("ann", "client"), ("fleet", "worker")):
        arguments = ["token", name, "--role", role, "--tokens", str(accepted)]
        made = CliRunner().invoke(app, arguments)
        assert made.exit_code == 0, made.output
        tokens[name] = made.output.strip()
    assert len({*tokens.values()}) == 2
    for name, token in tokens.items():
        assert token not in accepted.read_text()
        found = find_token(read_tokens(accepted), token)
        assert found is not None
        assert found.name == name
    refused = CliRunner().invoke(app, ["token", "a b", "--role", "admin", "--tokens", "x"])
    assert isinstance(refused.exception, ConfigError)
    assert "the name may have" in str(refused.exception)


def test_sql_logs_in_with_a_file_and_psql_does_not_hold_the_password(
    bare_url: Callable[[str], str],
    password_file: Callable[[str], Path],
    capfd: pytest.CaptureFixture[str],
) -> None:
    path = password_file("console")
    arguments = ["sql", "--database-url", bare_url("console"), "--password-file", str(path)]
    queries = ["-c", "SELECT current_user", "-c", r"\! env; cat /proc/$PPID/cmdline"]
    assert CliRunner().invoke(app, [*arguments, *queries]).exit_code == 0
    said = capfd.readouterr()
    assert "zerofleet_console" in said.out
    assert "PGPASSFILE=" in said.out
    assert path.read_text().strip() not in said.out + said.err


def test_migrate_logs_in_with_the_file_that_the_environment_names(
    bare_url: Callable[[str], str],
    password_file: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("ZEROFLEET_DATABASE_URL", bare_url("owner"))
    monkeypatch.setenv("ZEROFLEET_DATABASE_PASSWORD_FILE", str(password_file("owner")))
    assert CliRunner().invoke(app, ["migrate"]).output == "the database is up to date\n"
    empty = CliRunner().invoke(app, ["migrate", "--role-passwords", str(tmp_path)])
    assert "has no file named after a role" in str(empty.exception)


def test_play_does_not_reach_other_machines_in_plaintext(tmp_path: Path) -> None:
    arguments = ["play", "--address", "inference.example:8001", "--game", "tic_tac_toe"]
    refused = CliRunner().invoke(app, arguments)
    assert isinstance(refused.exception, ConfigError)
    assert "set ZEROFLEET_TLS_FOLDER (--tls)" in str(refused.exception)
    missing = CliRunner().invoke(app, [*arguments, "--tls", str(tmp_path)])
    assert f"the TLS folder {tmp_path} lacks" in str(missing.exception)
