"""Each query of the Grafana dashboards, asked of what it will be asked of: what the services export
and the tables as the console may read them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import promql_parser
import psycopg2
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "deploy" / "observability" / "grafana"
BOARDS = sorted((FOLDER / "dashboards").glob("*.json"))
MACROS = ((re.compile(r"\$__timeFilter\(([^)]+)\)"), r"\1 > now() - interval '1 day'"),)

RUN = """
name = "seen"
preset = "plain"
game = "tic_tac_toe"
[network]
blocks = 1
channels = 8
[search]
num_simulations = 8
[selfplay]
games_per_engine = 16
[trainer]
batch_size = 64
min_positions = 64
publish_every_steps = 10
checkpoint_every_steps = 10
metrics_every_steps = 5
[overfit]
min_positions = 1
[evaluator]
games = 2
num_simulations = 4
opening_plies = 1
[rating]
games = 0
[exam]
num_simulations = 2
[scaling]
window_seconds = 1
every_seconds = 0.5
"""


def panels(board: Path) -> list[dict[str, Any]]:
    return [each for each in json.loads(board.read_text())["panels"] if each["type"] != "row"]


def queries(key: str) -> list[tuple[str, str]]:
    """Each query in PromQL (``expr``) or SQL (``rawSql``), and where it stands."""
    return [
        (f"{board.stem}: {panel['title']}", target[key])
        for board in BOARDS
        for panel in panels(board)
        for target in panel["targets"]
        if key in target
    ]


def metrics_asked_for() -> set[str]:
    return {name for _, query in queries("expr") for name in re.findall(r"\bzerofleet_\w+", query)}


def test_every_panel_asks_a_source_that_is_provisioned() -> None:
    provisioned = yaml.safe_load((FOLDER / "provisioning/datasources/zerofleet.yml").read_text())
    kinds = {source["uid"]: source["type"] for source in provisioned["datasources"]}
    assert len(BOARDS) == 3
    for board in BOARDS:
        content = json.loads(board.read_text())
        ids = [panel["id"] for panel in content["panels"]]
        assert len(ids) == len(set(ids)), board.name
        for panel in panels(board):
            for target in panel["targets"]:
                source = target["datasource"]
                assert kinds[source["uid"]] == source["type"], panel["title"]
                assert ("expr" in target) == (source["type"] == "prometheus"), panel["title"]
    uids = [json.loads(board.read_text())["uid"] for board in BOARDS]
    assert len(set(uids)) == len(uids)


def test_every_query_for_prometheus_is_promql() -> None:
    found = queries("expr")
    assert len(found) > 40
    for where, query in found:
        try:
            promql_parser.parse(query)
        except ValueError as error:
            pytest.fail(f"{where}: {error}")


def test_every_query_in_sql_runs_as_the_console(role_url: Callable[[str], str]) -> None:
    found = queries("rawSql")
    found += [
        (f"{board.stem}: ${variable['name']}", variable["query"])
        for board in BOARDS
        for variable in json.loads(board.read_text())["templating"]["list"]
    ]
    assert len(found) > 15
    connection = psycopg2.connect(role_url("console"))
    try:
        connection.set_session(readonly=True, autocommit=True)
        with connection.cursor() as cursor:
            for where, query in found:
                for macro, meaning in MACROS:
                    query = macro.sub(meaning, query)
                assert "$__" not in query, where
                try:
                    cursor.execute(query.replace("$run", "test"))
                except psycopg2.Error as error:
                    pytest.fail(f"{where}: {error}")
                assert cursor.description, where
    finally:
        connection.close()


def test_a_curve_in_sql_has_its_time_first() -> None:
    for board in BOARDS:
        for panel in panels(board):
            for target in panel["targets"]:
                if target.get("format") == "time_series":
                    assert re.match(r"SELECT .*? AS time,", target["rawSql"]), panel["title"]


@pytest.mark.fleet
def test_every_metric_is_exported_by_a_service(
    make_fleet: Callable[[str], Any], role_url: Callable[[str], str], tmp_path: Path
) -> None:
    fleet = make_fleet(RUN)
    fleet.processes[0].kill()  # an inference service without metrics
    fleet.processes[0].wait()
    fleet.urls |= {"trainer": role_url("trainer"), "autoscaler": role_url("console")}
    fleet.environment |= {
        "ZEROFLEET_CHECKPOINT_FOLDER": str(tmp_path / "checkpoints"),
        "ZEROFLEET_SCALER_ADDRESS": "127.0.0.1:0",
    }
    services = ("inference", "trainer", "evaluator", "selfplay", "autoscaler")
    pages = [fleet.start_with_metrics(service)[1] for service in services]
    missing = metrics_asked_for()

    def nothing_is_missing() -> bool:
        for page in pages:
            missing.difference_update(re.findall(r"^(\w+)", page(), re.MULTILINE))
        return not missing

    try:
        fleet.until(nothing_is_missing, every=0.5)
    except AssertionError as error:
        raise AssertionError(f"nobody exports {sorted(missing)}") from error
