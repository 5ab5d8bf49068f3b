"""Questions in SQL from the command line."""

import pytest
from typer.testing import CliRunner

from zerofleet.cli import app


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
