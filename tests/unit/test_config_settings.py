"""Where a service finds its run file: the argument, or as in the images the environment."""

from pathlib import Path

import pytest

from zerofleet.config import ProcessSettings, read_settings
from zerofleet.errors import ConfigError


def test_the_argument_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEROFLEET_RUN_FILE", "there.toml")
    assert read_settings(ProcessSettings, ["here.toml"]).run_file == Path("here.toml")
    assert read_settings(ProcessSettings, []).run_file == Path("there.toml")


@pytest.mark.parametrize("arguments", [[], ["one.toml", "two.toml"]])
def test_without_a_run_file_it_says_where_to_give_it(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEROFLEET_RUN_FILE", raising=False)
    with pytest.raises(ConfigError, match=r"give one argument.*ZEROFLEET_RUN_FILE"):
        read_settings(ProcessSettings, arguments)
