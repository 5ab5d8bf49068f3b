"""Questions in SQL from the command line."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from zerofleet.cli import app
from zerofleet.local.postgres import USERS, EmbeddedPostgres
from zerofleet.local.postgres_cluster import find_programs


def asked(url: str, *queries: str) -> int:
    commands = [word for query in queries for word in ("-c", query)]
    return CliRunner().invoke(app, ["sql", "--database-url", url, *commands]).exit_code


def test_every_command_is_run_in_order(
    database_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert asked(database_url, "SELECT 'first' AS a", "SELECT 'second' AS b") == 0
    answer = capfd.readouterr().out
    assert answer.index("first") < answer.index("second")


def test_the_first_that_fails_is_the_last(
    database_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert asked(database_url, "SELECT nothing", "SELECT 'second'") != 0
    said = capfd.readouterr()
    assert "nothing" in said.err
    assert "second" not in said.out


def test_a_fleets_database_is_asked_where_the_environment_names_it(
    database_url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZEROFLEET_DATABASE_URL", database_url)
    assert CliRunner().invoke(app, ["sql", "-c", "SELECT current_database()"]).exit_code == 0
    assert urlsplit(database_url).path.lstrip("/") in capfd.readouterr().out


def test_a_password_that_is_given_is_stronger_than_the_environments(
    postgres: EmbeddedPostgres, database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    user = USERS["console"]
    password = (postgres.folder / "passwords" / user).read_text().rpartition(":")[2]
    (tmp_path / "password").write_text(password)
    monkeypatch.setenv("PGPASSWORD", "of another database")
    url = f"postgresql://{user}@127.0.0.1:{postgres.port}{urlsplit(database_url).path}"
    arguments = ["sql", "--database-url", url, "--password-file", str(tmp_path / "password")]
    assert CliRunner().invoke(app, [*arguments, "-c", "SELECT 1"]).exit_code == 0


def test_psql_without_a_server_will_do(
    database_url: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """As in the image of the tools, which has the client alone."""
    (tmp_path / "psql").symlink_to(find_programs().folder / "psql")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("zerofleet.local.postgres_cluster._folders", lambda: iter(()))
    assert asked(database_url, "SELECT 'alone' AS a") == 0
    assert "alone" in capfd.readouterr().out
