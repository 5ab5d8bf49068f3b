"""The trainer's figures over HTTP."""

import socket
import urllib.request

import pytest

from services.trainer.exporter import FigureCollector
from zerofleet.errors import ConfigError
from zerofleet.local.ports import free_port
from zerofleet.service import served_metrics


def test_figures_are_served_as_they_are_when_asked_for() -> None:
    port = free_port()
    steps = iter([7, 8])
    collector = FigureCollector(lambda: (next(steps), {"train_policy_loss": 1.5}))
    with served_metrics(f"127.0.0.1:{port}", collector):
        for step in (7.0, 8.0):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                text = answer.read().decode()
            assert f"zerofleet_trainer_step {step}" in text
            assert "zerofleet_trainer_train_policy_loss 1.5" in text


def test_an_address_of_version_6() -> None:
    port = free_port()
    with (
        served_metrics(f"[::1]:{port}", FigureCollector(lambda: (7, {}))),
        urllib.request.urlopen(f"http://[::1]:{port}/metrics") as answer,
    ):
        assert "zerofleet_trainer_step 7.0" in answer.read().decode()


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:port", "127.0.0.1:99999"])
def test_addresses_that_are_none(address: str) -> None:
    collector = FigureCollector(lambda: (0, {}))
    with (
        pytest.raises(ConfigError, match=r"METRICS_ADDRESS|cannot serve metrics"),
        served_metrics(address, collector),
    ):
        pytest.fail("it was served")


def test_a_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(ConfigError, match="cannot serve metrics"),
            served_metrics(address, FigureCollector(lambda: (0, {}))),
        ):
            pytest.fail("it was served")
