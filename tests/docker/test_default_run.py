"""``docker compose up`` alone: from nothing to a promoted model, asked from outside.

The tests go on from one another, in this order, on one project.
"""

import http.cookiejar
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from zerofleet import games
from zerofleet.client import AsyncPlayer
from zerofleet.errors import AccessDeniedError, ZerofleetError

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(7200)]

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("selfplay", "evaluator", "autoscaler")
MOST_BYTES = 300e6
GAME = "tic_tac_toe"
RUN = "tictactoe"


@pytest.fixture(scope="module")
def stack(engine: Any, images: Any, make_stack: Any) -> Iterator[Any]:
    stack = make_stack("runs/tictactoe.toml")
    with stack.up():
        print(f"\n`docker compose up -d` came back after {stack.since_up()}")
        yield stack


@pytest.fixture
def token(stack: Any, tmp_path: Path) -> Path:
    """The file of a client's token."""
    path = tmp_path / "token"
    path.write_text(stack.secret("token"))
    return path


def test_workers_need_little(images: dict[str, int]) -> None:
    assert {
        name: size for name, size in images.items() if name in SMALL and size > MOST_BYTES
    } == {}


def test_an_image_runs_as_nobody_in_particular_without_a_compiler(
    engine: docker.DockerClient, images: Any, image: Callable[[str], str]
) -> None:
    script = (
        "import os, shutil, sys; "
        "assert os.getuid() == os.getgid() == 10001, os.getuid(); "
        "found = [name for name in ('gcc', 'g++', 'cc', 'cmake', 'ninja') if shutil.which(name)]; "
        "assert not found, found; "
        "assert not os.access(sys.prefix, os.W_OK), sys.prefix"
    )
    for name in images:
        starts = "zerofleet.cli" if name == "tools" else f"zerofleet.services.{name}.service"
        engine.containers.run(
            image(name),
            ["-c", f"{script}; import {starts}"],
            entrypoint="python",
            remove=True,
            read_only=True,
            tmpfs={"/tmp": ""},
            network_mode="none",
        )


def test_it_trains(stack: Any) -> None:
    stack.until("the first game", stack.games)
    print(f"\nfirst game stored {stack.since_up()} after `up`")
    promoted = "SELECT count(*) FROM promotions WHERE match_id IS NOT NULL"
    stack.until("a model that won its match", lambda: stack.number(promoted), 1800)
    print(f"first model promoted by a match {stack.since_up()} after `up`: {stack.games()} games")
    stack.until_healthy(
        "postgres", "redis", "inference", "selfplay", "trainer", "evaluator", "dashboard"
    )
    assert len(stack.containers("selfplay")) == 2
    owner = stack.sql("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'zerofleet'")
    assert owner == [["zerofleet"]]


async def test_a_client_with_a_token_plays(stack: Any, token: Path) -> None:
    async with AsyncPlayer(stack.address, token_file=token) as player:
        played = await player.play(game=GAME, simulations=50)
        table = await player.search([4], game=GAME, simulations=50)
    assert 0 <= played.action < 9
    assert len(table.children) == 8


async def test_a_stranger_is_refused(stack: Any) -> None:
    async with AsyncPlayer(stack.address) as player:
        with pytest.raises(AccessDeniedError):
            await player.play(game=GAME)


def test_the_stock_client_with_a_token_predicts(stack: Any, token: Path) -> None:
    rows = np.repeat(games.State(GAME).observation()[np.newaxis], 3, axis=0)
    tensor = triton.InferInput("observation", list(rows.shape), "UINT8")
    tensor.set_data_from_numpy(rows)
    headers = {"authorization": f"Bearer {token.read_text()}"}
    with triton.InferenceServerClient(stack.address) as client:
        result = client.infer(RUN, [tensor], headers=headers)
        assert result.as_numpy("policy_logits").shape == (3, 9)
        assert int(result.get_response().model_version) >= 1
        with pytest.raises(InferenceServerException):
            client.infer(RUN, [tensor])


def test_nothing_listens_but_on_loopback(engine: docker.DockerClient, stack: Any) -> None:
    published = {
        binding["HostIp"]
        for name in stack.states()
        for bindings in engine.containers.get(name).ports.values()
        for binding in bindings or []
    }
    assert published == {"127.0.0.1"}


def test_the_tools_say_where_it_stands(stack: Any) -> None:
    said = stack.compose("run", "--rm", "-T", "tools", "status")
    assert re.search(r"^games +[\d,]+", said, re.MULTILINE), said
    assert "inference" in said
    query = "SELECT count(*) > 0 AS some FROM games_per_hour"
    assert "t" in stack.compose("run", "--rm", "-T", "tools", "sql", "-c", query).split()


def test_the_page_asks_for_a_login_and_takes_the_token_of_a_viewer(stack: Any) -> None:
    page = stack.url("DASHBOARD_PORT")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(page, timeout=30)
    token = stack.compose(
        *("run", "--rm", "-T", "--entrypoint", "cat", "tools", "/run/secrets/viewer_token")
    ).strip()
    browser = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    )
    form = urllib.parse.urlencode({"token": token, "to": "/"}).encode()
    asked = urllib.request.Request(f"{page}/login", form, {"Origin": page})
    with browser.open(asked, timeout=30) as answer:
        assert token not in answer.read().decode()
        assert answer.status == 200


def test_the_console_of_the_browser_may_read_and_nothing_else(
    stack: Any, image_of_others: Callable[[str, str], None]
) -> None:
    image_of_others("adminer:5", "adminer")
    stack.compose("--profile", "console", "up", "-d", "--no-build", "console")
    stack.until_healthy("console")
    password = stack.compose(
        *("run", "--rm", "-T", "--entrypoint", "cat", "tools", "/run/secrets/database_password")
    ).strip()
    browser = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    )
    form = {
        "auth[driver]": "pgsql",
        "auth[server]": "postgres",
        "auth[username]": "zerofleet_console",
        "auth[password]": password,
        "auth[db]": "zerofleet",
    }
    page = stack.url("CONSOLE_PORT")
    browser.open(page, timeout=30).read()
    with browser.open(page, urllib.parse.urlencode(form).encode(), timeout=30) as answer:
        content = answer.read().decode()
    assert "games_per_hour" in content
    assert password not in content


def test_prometheus_has_an_answer_to_every_query_of_the_dashboards(
    stack: Any, image_of_others: Callable[[str, str], None]
) -> None:
    image_of_others("prom/prometheus:v3.5.0", "prometheus")
    stack.compose("--profile", "observability", "up", "-d", "--no-build", "prometheus")
    stack.until_healthy("prometheus")
    unanswered = dict(queries())

    def all_are_answered() -> bool:
        for query in list(unanswered):
            if ask(stack, query):
                del unanswered[query]
        return not unanswered

    try:
        stack.until("an answer to every query", all_are_answered)
    except pytest.fail.Exception as error:
        raise AssertionError(f"no answer: {json.dumps(unanswered, indent=1)}") from error


def queries() -> Iterator[tuple[str, str]]:
    """Queries in PromQL, and where they stand; the autoscaler's are of clusters alone."""
    folder = ROOT / "deploy" / "observability" / "grafana" / "dashboards"
    for board in sorted(folder.glob("*.json")):
        for panel in json.loads(board.read_text())["panels"]:
            for target in panel.get("targets", []):
                if "expr" in target and "zerofleet_autoscaler" not in target["expr"]:
                    yield target["expr"], f"{board.stem}: {panel['title']}"


def ask(stack: Any, query: str) -> list[Any]:
    parameters = urllib.parse.urlencode({"query": query})
    url = f"{stack.url('PROMETHEUS_PORT')}/api/v1/query?{parameters}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.loads(answer.read())["data"]["result"]


async def test_with_certificates_nobody_without_one_gets_in(
    stack: Any, token: Path, tmp_path: Path
) -> None:
    """The same project goes on under deploy/compose/tls.yml, and its games too."""
    stack.files = ("deploy/compose/tls.yml",)
    stack.compose("up", "-d", "--no-build")
    stack.until_healthy("inference", "selfplay", "evaluator")
    before = stack.games()
    stack.until("games over TLS", lambda: stack.games() > before + 20)
    folder = tmp_path / "tls"
    folder.mkdir()
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (folder / name).write_text(stack.secret(f"tls/{name}") + "\n")
    async with AsyncPlayer(stack.address, tls_folder=folder, token_file=token) as player:
        assert 0 <= (await player.play(game=GAME)).action < 9
    (folder / "tls.crt").unlink()
    (folder / "tls.key").unlink()
    async with AsyncPlayer(
        stack.address, timeout=5.0, tls_folder=folder, token_file=token
    ) as player:
        with pytest.raises(ZerofleetError):
            await player.play(game=GAME)


def test_no_log_has_a_secret(engine: docker.DockerClient, stack: Any) -> None:
    secrets = {
        name: stack.secret(name) for name in ("database_password", "redis_password", "token")
    }
    for name in stack.states():
        log = engine.containers.get(name).logs().decode(errors="replace")
        assert [each for each, value in secrets.items() if value in log] == [], name


def test_a_backup_comes_back(engine: docker.DockerClient, stack: Any, tmp_path: Path) -> None:
    """As docs/how-to/compose.md says: four volumes, copied while the fleet stands still."""
    volumes = ("postgres", "models", "checkpoints", "secrets")
    stack.compose("stop")
    # tini passes SIGTERM on, and all leave in peace before Docker loses patience.
    ends = {
        service: {
            each.attrs["State"]["ExitCode"] for each in stack.containers(service, stopped=True)
        }
        for service in ("inference", "selfplay", "trainer", "evaluator", "postgres", "redis")
    }
    assert ends == {service: {0} for service in ends}
    for volume in volumes:
        tar(engine, f"{stack.project}_{volume}", tmp_path, ["-cf", f"/backup/{volume}.tar", "."])
    stack.compose("--profile", "*", "down", "-v")
    stack.compose("create", "--no-build")
    for volume in volumes:
        tar(engine, f"{stack.project}_{volume}", tmp_path, ["-xf", f"/backup/{volume}.tar"])
    stack.compose("up", "-d", "--no-build")
    stack.until("the stored games", stack.games)
    before = stack.games()
    assert before > 100
    stack.until("more games", lambda: stack.games() > before)


def tar(engine: docker.DockerClient, volume: str, folder: Path, arguments: list[str]) -> None:
    engine.containers.run(
        "python:3.11-slim-bookworm",
        ["-C", "/volume", *arguments],
        entrypoint="tar",
        volumes={
            volume: {"bind": "/volume", "mode": "rw"},
            str(folder): {"bind": "/backup", "mode": "rw"},
        },
        network_mode="none",
        remove=True,
    )
