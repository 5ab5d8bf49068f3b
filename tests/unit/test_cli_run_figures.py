"""The figures of a run as a user sees them."""

import io
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from zerofleet import cli
from zerofleet.cli.local_run import LocalRun, Until, final_report, lost_text
from zerofleet.cli.run_figures import (
    LiveTable,
    PlainLines,
    draw,
    one_line,
    status_text,
    status_values,
)
from zerofleet.config import TrainerSection, run_from_values
from zerofleet.database import Kept, RecentPlay, RestartList
from zerofleet.fleet.disk import DiskUse, FolderSizes
from zerofleet.fleet.figures import (
    DemandFigures,
    EvaluatorFigures,
    InferenceFigures,
    SelfplayFigures,
    TrainerFigures,
)
from zerofleet.fleet.heartbeat import Heartbeat
from zerofleet.fleet.report import (
    Exam,
    Loss,
    RunFigures,
    ServiceState,
    duration,
    elo_text,
    states_of,
)
from zerofleet.fleet.usage import Usage
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.stores import Running
from zerofleet.waiting import WorkStatus

HOSTILE = "\x1b]0;title\x07\x1b]52;c;cm0=\x07\x9b2J\u202eline\nforged  row [red]x"
FOREVER = Until.parse("forever")
EMPTY = RunFigures(
    run="r",
    game="tic_tac_toe",
    games=0,
    positions=0,
    games_last_hour=0,
    games_per_hour=0.0,
    positions_per_second=0.0,
    models=0,
    promotions=0,
    has_exam=True,
)
FULL = RunFigures(
    run="r",
    game="tic_tac_toe",
    games=12_345,
    positions=67_890,
    games_last_hour=12_000,
    games_per_hour=36_000.0,
    positions_per_second=5_432.1,
    models=4,
    promotions=3,
    has_exam=True,
    exams=(Exam(1, 50, 600, 60, 0.1), Exam(3, 50, 500, 0, 0.0), Exam(4, 50, 500, 5, 0.01)),
    train=Loss(1.25, 0.5, {"stones": 0.25}),
    held_out=Loss(1.5, 0.625),
    best_version=4,
    best_age_s=75.0,
    rated_version=4,
    elo=130.4,
    elo_error=36.6,
    play=RecentPlay(1000, 0.4567, 0.25, 0.4, 0.35, 1.95),
)
SEARCHES = Kept(
    bytes=7_654_000_000,
    since=datetime(2026, 5, 1, 9, 30, tzinfo=UTC),
    bytes_per_day=987_600_000,
    game_bytes=456_000_000,
    database_bytes=8_200_000_000,
    models=3,
)
FILES = FolderSizes(
    log=256_000_000, models=1_230_000_000, checkpoints=80_000_000, logs=4_000_000, other=25_000_000
)
KEPT = DiskUse(SEARCHES, FILES, limit=20e9)
NOTHING = DiskUse(Kept(32_768, None, None, 16_384, 10_000_000, models=0), None, None)
SERVICES = [
    ServiceState("trainer", "Waiting for Postgres", "blocked", "Postgres"),
    ServiceState("inference", "Restarting in 0.5 s: was ended by SIGKILL", "down", restarts=2),
    ServiceState("selfplay", "Running"),
]


def test_a_line_says_everything() -> None:
    line = one_line(FULL, SERVICES, 65.0)
    for words in (
        "1 min 5 s | games 12,345 (36,000/h) | positions/s 5,432",
        "training loss policy 1.250 value 0.500 stones 0.25",
        "validation loss policy 1.500 value 0.625",
        "best 4 (promoted 1 min 15 s ago)",
        "Elo +130 ± 72",
        "exam errors 1.00% (model 4; was 0.00% for model 3)",
        "trainer: Waiting for Postgres",
        "inference: Restarting in 0.5 s: was ended by SIGKILL",
        "service restarts 2",
    ):
        assert words in line
    assert "selfplay" not in line
    empty = one_line(EMPTY, [], 0.0)
    for words in (
        "training loss not measured yet",
        "validation loss not measured yet",
        "best none promoted yet",
        "Elo not rated yet",
        "exam errors no exam yet",
    ):
        assert words in empty


def test_the_table_says_everything() -> None:
    text = io.StringIO()
    console = Console(file=text, width=100, force_terminal=True, color_system=None)
    with LiveTable(console) as table:
        table.show(FULL, SERVICES)
        table.say("something happened")
    shown = text.getvalue()
    for words in (
        "12,345",
        "5,432/s",
        "policy 1.250",
        "+130 ± 72",
        "was 0.00% for model 3",
        "Waiting for Postgres",
    ):
        assert words in shown
    assert "something happened" in shown
    assert "45.7% of the last 1,000" in shown


@pytest.mark.parametrize(
    ("used", "words"),
    [
        (0.25, "0.0123 (25% of the schedule)"),
        (
            2.5,
            "0.0123 (schedule finished; raise trainer.budget_minutes or",
        ),
    ],
)
def test_a_learning_rate_with_a_budget_is_shown(used: float, words: str) -> None:
    def shown(figures: RunFigures) -> list[str]:
        text = io.StringIO()
        Console(file=text, width=120).print(draw(figures, [], 1.0))
        return [one_line(figures, [], 1.0), status_text(figures, KEPT, [], ""), text.getvalue()]

    with_budget = shown(replace(FULL, learning_rate=0.01234, budget_used=used))
    assert all(words in text for text in with_budget)
    without = shown(replace(FULL, learning_rate=0.01234))
    assert not any("learning rate" in text for text in without)


def test_the_title_is_one_line_at_the_terminals_width() -> None:
    text = io.StringIO()
    named = replace(FULL, game="go(size=9,komi=7.5,suicide=false)", run="a-long-name-of-a-run")
    Console(file=text, width=60).print(draw(named, [], 3_723.0))
    assert text.getvalue().splitlines()[0] == (
        "a-long-name-of-a-run (go(size=9,komi=7.5,suicide=false)), u…"
    )


def test_told_to_stop_nothing_is_shown_of_what_services_did(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = PlainLines()
    lines.end()
    lines.show(FULL, SERVICES)
    assert capsys.readouterr().out == ""
    text = io.StringIO()
    with LiveTable(Console(file=text, width=100, force_terminal=True)) as table:
        table.show(FULL, SERVICES)
        shown = len(text.getvalue())
        table.end()
        table.show(FULL, SERVICES)
    assert "12,345" in text.getvalue()[shown:]
    assert "Running" not in text.getvalue()[shown:]


def test_one_is_not_counted_in_the_plural(tmp_path: Path) -> None:
    one = replace(FULL, games=1, models=1, promotions=1)
    report = final_report(one, Usage(1.0, 1.0), DataFolder(tmp_path, "r", "g"))
    assert "\n1 game, 1 model, 1 promotion; " in report
    disk = replace(NOTHING, kept=replace(NOTHING.kept, models=1))
    assert "files of 1 of 1 model\n" in status_text(one, disk, [], None)


PACED = TrainerFigures(demand=DemandFigures(wait_share=0.3))
STARVED = TrainerFigures(demand=DemandFigures(wait_share=1.0))


@pytest.mark.parametrize(
    ("figures", "waiting_for", "status", "doing", "shown"),
    [
        (
            SelfplayFigures(),
            "the trainer, 10000 positions behind",
            "idle",
            "Running (paced to the trainer)",
            "running",
        ),
        (
            SelfplayFigures(pause_share=0.4),
            "",
            "running",
            "Running (paced to the trainer)",
            "running",
        ),
        (
            SelfplayFigures(pause_share=0.4),
            "Postgres",
            "blocked",
            "Waiting for Postgres",
            "blocked",
        ),
        (
            SelfplayFigures(),
            "the trainer to start",
            "idle",
            "Idle: waiting for the trainer to start",
            "idle",
        ),
        (
            SelfplayFigures(),
            "room in the queue of inference",
            "running",
            "Running: waiting for room in the queue of inference",
            "running",
        ),
        (SelfplayFigures(), "", "running", "Running", "running"),
        # heartbeats of 1.0 have no status
        (SelfplayFigures(), "Postgres", None, "Waiting for Postgres", "blocked"),
        (TrainerFigures(), "500 positions", "idle", "Idle: waiting for 500 positions", "idle"),
        (PACED, "11 positions", "idle", "Running (paced to self-play)", "running"),
        (PACED, "", "running", "Running (paced to self-play)", "running"),
        (STARVED, "11 positions", "idle", "Idle: waiting for 11 positions", "idle"),
        (PACED, "Postgres", "blocked", "Waiting for Postgres", "blocked"),
        (EvaluatorFigures(), "a new model", "idle", "Idle: no new model to evaluate", "idle"),
    ],
)
def test_only_a_process_that_is_blocked_is_shown_in_yellow(
    figures: SelfplayFigures | TrainerFigures | EvaluatorFigures,
    waiting_for: str,
    status: WorkStatus | None,
    doing: str,
    shown: str,
) -> None:
    [state] = states_of([Heartbeat("w", 1, waiting_for, figures, status=status)])
    assert (state.doing, state.status) == (doing, shown)
    text = io.StringIO()
    Console(file=text, width=120, force_terminal=True).print(draw(FULL, [state], 1.0))
    assert ("\x1b[33m" in text.getvalue()) == (shown == "blocked")


def test_a_run_with_its_first_model_alone_says_what_training_waits_for(tmp_path: Path) -> None:
    trainer = TrainerSection(min_positions=3_000, publish_every_steps=700)
    folder = DataFolder(tmp_path, "r", "g")

    def words(positions: int) -> str:
        figures = replace(EMPTY, games=9, models=1, positions=positions)
        return final_report(figures, Usage(1.0, 1.0), folder, trainer=trainer)

    assert "Training starts at 3,000 positions, and the run has 1,626." in words(1_626)
    assert "The next model comes after 700 steps." in words(3_000)


def test_a_process_whose_heartbeat_is_late_does_not_respond() -> None:
    [state] = states_of([Heartbeat("w", 1, "Postgres", SelfplayFigures(), age_seconds=5.2)])
    assert (state.doing, state.status) == ("Not responding (last heartbeat 5 s ago)", "down")
    [alive] = states_of([Heartbeat("w", 1, "", SelfplayFigures(), age_seconds=1.2)])
    assert (alive.doing, alive.status) == ("Running", "running")


def test_a_network_too_large_for_this_machine_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"name": "r", "game": "go(size=9)", "network": {"blocks": 10, "channels": 128}}
    options = {"workers": 1, "port": None, "page": False, "page_port": None}
    run = LocalRun(
        run_from_values(values), DataFolder(tmp_path, "r", "go"), until=FOREVER, **options
    )

    def looks(provider: str, rows_per_second: float, times: int) -> str:
        figures = InferenceFigures(provider=provider, capacity_rows_per_second=rows_per_second)
        for _ in range(times):
            run._warn_of_size([ServiceState("inference", "Running", figures=figures)])
        return capsys.readouterr().out

    assert looks("cpu", 175.0, 19) + looks("cpu", 0.0, 1) + looks("cuda", 175.0, 99) == ""
    assert looks("cpu", 175.0, 20) == (
        "the network is large for this machine, 175 positions/s: "
        "with blocks = 5, channels = 32 about 5,400\n"
    )
    assert looks("cpu", 3.0, 99) == ""


def test_the_end_of_the_budget_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"name": "r", "game": "tic_tac_toe"}
    options = {"workers": 1, "port": None, "page": False, "page_port": None}
    run = LocalRun(
        run_from_values(values), DataFolder(tmp_path, "r", "tic_tac_toe"), until=FOREVER, **options
    )
    for used in (None, 0.99, 1.0, 1.5):
        run._tell_of_budget(replace(FULL, budget_used=used))
    assert capsys.readouterr().out == (
        "Schedule finished: training continues at the lowest learning rate. Press Ctrl-C to stop.\n"
    )


def test_sizes_are_told_once_and_again_if_a_restart_changes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    section = {"engines": 2, "games_per_engine": 8}
    values = run_from_values({"name": "r", "game": "tic_tac_toe", "selfplay": section})
    folder = DataFolder(tmp_path, "r", "tic_tac_toe")
    options = {"port": None, "page": False, "page_port": None}
    for workers in (0, 1, 3):  # a run that learns from given games alone has no worker
        run = LocalRun(values, folder, until=FOREVER, workers=workers, **options)
        run._report_workers()
    printed = capsys.readouterr().out
    assert "self-play: 1 worker, 16 games per worker, on" in printed
    assert "self-play: 3 workers, 16 games per worker, on" in printed
    assert printed.count("\n") == 2
    for runs_on in ("", "cuda", "cuda", "", "cpu", "cpu"):  # older versions send no text
        figures = InferenceFigures(runs_on=runs_on)
        run._report_services([ServiceState("inference", "Running", figures=figures)])
    assert capsys.readouterr().out == "inference: cuda\ninference: cpu\n"
    figures = InferenceFigures(runs_on=HOSTILE)
    run._report_services([ServiceState("inference", "Running", figures=figures)])
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert printed[:-1].isprintable()


def test_plain_lines_come_at_events_and_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainLines() as lines:
        for figures in (EMPTY, EMPTY, FULL, FULL):
            lines.show(figures, SERVICES)
    assert capsys.readouterr().out.count("\n") == 2


def test_the_goal_is_met_by_the_best_or_a_new_exam() -> None:
    assert EMPTY.exam_at(1.0) is None
    assert FULL.exam_at(None) is None
    assert FULL.exam_at(0.0) == FULL.exams[1]
    assert FULL.exam_at(0.01) == FULL.exams[2]
    assert FULL.exam_at(0.5) == FULL.exams[2]
    assert FULL.exam_at(0.0, after=2) is None
    assert FULL.exam_at(0.0, after=1) == FULL.exams[1]
    assert FULL.exam_at(0.01, after=3) == FULL.exams[2]


def test_status_as_text_and_json() -> None:
    text = status_text(FULL, KEPT, SERVICES, "127.0.0.1:8001")
    assert "r (tic_tac_toe), running" in text
    assert "12,345 (12,000 in the last hour)" in text
    assert "45.7% of the last 1,000" in text
    assert "Elo              +130 ± 72\n" in text
    behind = status_text(replace(FULL, rated_version=2), KEPT, [], None)
    assert "Elo              +130 ± 72 (model 2)\n" in behind
    first = replace(FULL, elo=0.0, elo_error=0.0)
    assert "Elo              0 (reference)\n" in status_text(first, KEPT, [], None)
    assert elo_text(replace(first, rated_version=1)) == "0 (reference, model 1)"
    assert elo_text(replace(FULL, elo=1234.0, elo_error=None)).startswith("+1,234")
    assert "25.0% of the last 1,000" in text
    assert "network 0.40 (1.95 at first), search 0.35 nats" in text
    few = replace(FULL, play=RecentPlay(12, 1.0, 0.0))
    assert "100.0% of the last 12\n" in status_text(few, KEPT, [], None)
    assert (
        "7.7 GB of searches since 2026-05-01 09:30 UTC (987.6 MB a day), files of 3 of 4 models"
    ) in text
    assert "0.0 MB of searches, files of 0 of 0 models" in status_text(EMPTY, NOTHING, [], None)
    assert "stopped" in status_text(EMPTY, NOTHING, [], None)
    held_up = replace(FULL, window_blocker="a transaction of ada (psql, pid 7)")
    assert "ingest blocked by  a transaction of ada (psql, pid 7)" in status_text(
        held_up, KEPT, [], None
    )
    assert "ingest blocked by" not in text
    assert "games begin at" not in text
    for restarts, words in (
        (RestartList(), "no positions yet"),
        (RestartList(0, None, 7.0), "no positions yet, written 7 s ago"),
        (
            RestartList(1, 2.0, 75.0),
            "1 position with a mean regret of 2.00, written 1 min 15 s ago",
        ),
        (RestartList(200, 1.104, 7.0), "200 positions with a mean regret of 1.10, written 7 s ago"),
    ):
        shown = replace(FULL, restarts=restarts)
        assert f"games begin at   {words}" in status_text(shown, KEPT, [], None)
    assert "warning" not in text
    narrow = replace(FULL, warnings={"narrows": "40.0% of the last 1,000 games differ"})
    assert "warning          Self-play is repeating itself: 40.0% of the last" in status_text(
        narrow, KEPT, [], None
    )
    assert "newest exam      no exam yet" in text
    kinds = Exam(4, 50, 300, 24, 0.08, "random", 0.263, 0.31), Exam(4, 50, 300, 42, 0.14, "good")
    examined = status_text(replace(FULL, newest_exams=kinds), KEPT, [], None)
    row = (
        "model 4: random positions 8.00%, network only 26.30%, value error 0.310; "
        "good-play positions 14.00%"
    )
    assert row in examined
    stores = Running(1, {}, "")
    stopped = status_text(EMPTY, NOTHING, [], None, running=stores, page_command="zerofleet page")
    assert stopped.endswith("dashboard        not served; to open it: zerofleet page")
    up = replace(stores, page_address="127.0.0.1:8080", metrics_ports={"trainer": 9100})
    shown = status_text(FULL, KEPT, [], "127.0.0.1:8001", running=up)
    assert "dashboard        http://127.0.0.1:8080\n" in shown
    assert "metrics          http://127.0.0.1:PORT/metrics; ports: trainer 9100" in shown
    places = status_values(FULL, KEPT, [], "127.0.0.1:8001", running=up)
    assert places["page"] == "http://127.0.0.1:8080"
    assert places["metrics"] == {"trainer": "http://127.0.0.1:9100/metrics"}
    values = json.loads(json.dumps(status_values(FULL, KEPT, SERVICES, "127.0.0.1:8001")))
    assert values["up"] is True
    assert (values["page"], values["metrics"]) == (None, {})
    assert [round(end, 1) for end in values["elo_interval_95"]] == [58.7, 202.1]
    assert status_values(EMPTY, NOTHING, [], None)["elo_interval_95"] is None
    assert values["held_out"] == {"policy": 1.5, "value": 0.625, "own": {}}
    assert values["train"]["own"] == {"stones": 0.25}
    assert "until" not in values  # only the process of the run knows its own --until
    assert values["exams"][1]["error_rate"] == 0.0
    assert values["services"][1]["restarts"] == 2
    assert values["kept"]["bytes_per_day"] == 987_600_000
    assert values["kept"]["since"] == "2026-05-01T09:30:00+00:00"


def test_status_lists_what_takes_room_and_when_the_limit_is_reached() -> None:
    text = status_text(FULL, KEPT, [], "127.0.0.1:1")
    assert (
        "disk use         9.8 GB: searches 7.7 GB, models 1.2 GB, games 456.0 MB, "
        "write-ahead log 256.0 MB, other tables 90.0 MB, checkpoints 80.0 MB, other files 25.0 MB, "
        "logs 4.0 MB\n"
    ) in text
    assert "disk limit       20 GB, reached in 9 days at the current rate\n" in text
    stopped = status_text(FULL, KEPT, [], None)
    assert "disk limit       20 GB, reached after 9 days more of this run\n" in stopped
    of_fleet = status_text(EMPTY, NOTHING, [], None)
    assert "disk use         10.0 MB: other tables 10.0 MB, searches 0.0 MB, games " in of_fleet
    assert "disk limit       none\n" in of_fleet
    values = json.loads(json.dumps(status_values(FULL, KEPT, [], None)))
    assert values["disk_use"]["total_bytes"] == 9_795_000_000
    assert values["disk_use"]["folder_bytes"]["log"] == 256_000_000
    assert status_values(FULL, NOTHING, [], None)["disk_use"]["limit_bytes"] is None


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (15e9, "15 GB, reached in 5 days at"),
        (11e9, "11 GB, reached in 16 hours at"),
        (10.35e9, "10.35 GB, reached in 55 minutes at"),
        (10.3e9, "10.3 GB, reached: the oldest searches that training does not need are dropped"),
        (2.5e9, "2.5 GB, reached: the oldest"),
    ],
)
def test_a_disk_limit_says_when_it_begins_to_drop_searches(limit: float, words: str) -> None:
    text = status_text(FULL, replace(KEPT, limit=limit), [], "127.0.0.1:1")
    assert f"disk limit       {words}" in text


def test_a_disk_limit_below_what_is_fixed_is_said_to_be_too_low() -> None:
    fixed = KEPT.total - KEPT.kept.bytes
    small = replace(KEPT, limit=0.5e9)
    assert small.fixed == fixed + (256 << 20) - 256_000_000  # the log may still grow
    text = status_text(FULL, small, [], "127.0.0.1:1")
    assert "disk limit       0.5 GB: retention.max_disk_gb = 0.5 cannot be kept: the write-" in text
    assert "need 2.15 GB without any searches. Set it to 2.7 or more, or to 0 for no limit." in text
    assert replace(KEPT, limit=float(small.fixed)).limit_fault is None
    values = status_values(FULL, small, [], None)["disk_use"]
    assert values["limit_fault"] == small.limit_fault
    of_fleet = replace(NOTHING, limit=5e6)
    assert str(of_fleet.limit_fault).startswith(
        "retention.max_disk_gb = 0.005 cannot be kept: tables need 0.01 GB"
    )


def test_a_disk_limit_without_a_rate_is_a_limit() -> None:
    disk = replace(KEPT, kept=replace(SEARCHES, bytes_per_day=None))
    assert "disk limit       20 GB\n" in status_text(FULL, disk, [], None)


def test_warnings_are_said_wherever_figures_are() -> None:
    warnings = {"narrows": "40.0% differ: raise fork_share of [search]", "overfits": "wide gaps"}
    warned, text = replace(FULL, warnings=warnings), io.StringIO()
    Console(file=text, width=120).print(draw(warned, [], 0.0))
    for shown in (status_text(warned, KEPT, [], None), text.getvalue(), one_line(warned, [], 0.0)):
        assert "Self-play is repeating itself: 40.0% differ" in shown
        assert "The network is overfitting: wide gaps" in shown
    assert json.loads(json.dumps(status_values(warned, KEPT, [], None)))["warnings"] == warnings


def test_refused_variants_are_said_wherever_figures_are() -> None:
    reason = "int8: policy_kl 0.00612 is above 0.005"
    refused, text = replace(FULL, refused_variants=reason), io.StringIO()
    Console(file=text, width=100).print(draw(refused, [], 0.0))
    for shown in (status_text(refused, KEPT, [], None), text.getvalue()):
        assert reason in shown
    assert f" | rejected models {reason}" in one_line(refused, [], 0.0)
    assert "rejected" not in status_text(FULL, KEPT, [], None) + one_line(FULL, [], 0.0)


def test_the_steps_until_the_next_model_are_said_wherever_figures_are() -> None:
    running, text = replace(FULL, steps_to_next_model=1_361), io.StringIO()
    Console(file=text, width=100).print(draw(running, [], 0.0))
    for shown in (status_text(running, KEPT, [], "h:1"), text.getvalue()):
        assert re.search(r"^next model +in 1,361 steps", shown, re.MULTILINE)
    assert " | next model in 1,361 steps | " in one_line(running, [], 0.0)
    assert " | next model not known yet | " in one_line(FULL, [], 0.0)
    assert "next model" not in status_text(FULL, KEPT, [], None)
    assert status_values(running, KEPT, [], "h:1")["steps_to_next_model"] == 1_361


def test_the_redis_of_a_stopped_run_is_not_shown_as_up() -> None:
    """The stores run for the command only."""
    stopped = Running(1, {}, "")
    assert "\nRedis" not in status_text(FULL, KEPT, [], None, running=stopped)
    assert "\nRedis" in status_text(FULL, KEPT, [], "h:1", running=stopped)


def test_a_full_disk_is_said_wherever_figures_are() -> None:
    full = replace(FULL, disk="full: 0.0 MB left on the disk of /data; make room there")
    assert "disk             full: 0.0 MB left on the disk of /data" in status_text(
        full, KEPT, [], None
    )
    assert " | disk full: 0.0 MB left on the disk of /data" in one_line(full, [], 0.0)
    values = status_values(full, KEPT, [], None)
    assert values["disk_use"]["disk_full"] == full.disk
    assert "disk" not in values
    text = io.StringIO()
    Console(file=text, width=100).print(draw(full, [], 0.0))
    assert "full: 0.0 MB left on the disk of /data" in text.getvalue()
    lost = lost_text(13_187, {}, full.disk)
    assert lost.startswith("\n13,187 finished games were not stored, ")
    assert "the disk is full: 0.0 MB left on the disk of /data" in lost
    assert "1 finished game was not stored" in lost_text(1, {}, None)
    assert lost_text(0, {}, full.disk) == ""


def test_the_last_lines_say_what_is_known_of_workers_that_were_killed() -> None:
    silent = lost_text(0, {"selfplay-1": False, "selfplay-2": False}, None)
    assert silent.startswith("\nselfplay-1 and selfplay-2 had to be killed and did not report")
    text = lost_text(0, {"selfplay-1": True, "selfplay-2": True}, None)
    assert text.startswith("\nselfplay-1 and selfplay-2 had to be killed while saving unfinished")
    assert "No finished game was lost." in text
    both = lost_text(2, {"selfplay-1": True, "selfplay-2": False}, None)
    assert both.startswith("\n2 finished games were not stored")
    assert both.count("\n") == 3
    assert "No finished game was lost." not in both


def test_status_says_what_inference_runs_on() -> None:
    figures = InferenceFigures(provider="cuda", precision="fp16")
    busy = ServiceState("inference", "Running", figures=figures)
    assert (
        status_text(FULL, KEPT, [busy], "h:1").splitlines()[-2].endswith("Running on cuda in fp16")
    )
    early = replace(busy, doing="Waiting for a model", waiting_for="a model")
    assert status_text(FULL, KEPT, [early], "h:1").splitlines()[-2].endswith("Waiting for a model")
    first = replace(busy, figures=InferenceFigures(provider="cpu"))
    assert status_text(FULL, KEPT, [first], "h:1").splitlines()[-2].endswith("Running on cpu")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.9, "0 s"),
        (59.9, "59 s"),
        (65.0, "1 min 5 s"),
        (3_723.0, "1 h 2 min"),
        (90_000.0, "1 d 1 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_report_of_a_run_without_a_finished_game_says_so(tmp_path: Path) -> None:
    words = final_report(EMPTY, Usage(1.0, 1.0), DataFolder(tmp_path, "r", "g"))
    assert words.startswith("\nNo game was finished.\n\npage ")


def test_the_validation_loss_is_the_trainers_and_not_the_best_models(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path, "r", "g")
    words = final_report(FULL, Usage(1.0, 1.0), folder)
    assert (
        "\nBest: model 4, Elo +130 ± 72.\n"
        "Last validation loss of the trainer: policy 1.500 value 0.625.\n"
    ) in words
    assert "held-out" not in final_report(replace(FULL, held_out=None), Usage(1.0, 1.0), folder)


@pytest.mark.parametrize("has_exam", [True, False])
def test_an_exam_is_suggested_where_there_is_one(tmp_path: Path, has_exam: bool) -> None:
    words = final_report(
        replace(FULL, has_exam=has_exam), Usage(1.0, 1.0), DataFolder(tmp_path, "r", "g")
    )
    assert ("\nexam " in words) == has_exam
    assert "\nmodel " in words


def test_a_run_goes_on_with_as_many_workers(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path, "r", "g")
    reports = [final_report(FULL, Usage(1.0, 1.0), folder, workers=number) for number in (1, 3)]
    assert [words.endswith(" --workers 3") for words in reports] == [False, True]
    reports = [final_report(FULL, Usage(1.0, 1.0), folder, metrics_port=at) for at in (None, 9100)]
    assert [words.endswith(" --metrics-port 9100") for words in reports] == [False, True]


@pytest.mark.parametrize("figures", [FULL, EMPTY])
def test_the_report_names_the_command_that_shows_the_page(
    tmp_path: Path, figures: RunFigures
) -> None:
    words = final_report(figures, Usage(1.0, 1.0), DataFolder(tmp_path, "r", "g"))
    assert re.search(rf"^page +\S+ page --data {tmp_path}$", words, re.MULTILINE)


def test_output_that_nobody_takes_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal was closed, for example."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr("sys.stdout", Closed())
    with PlainLines() as lines:
        lines.show(FULL, SERVICES)
        lines.say("something happened")
    with LiveTable(Console(file=Closed(), width=100, force_terminal=True)) as table:
        table.show(FULL, SERVICES)
        table.say("something happened")


def hostile() -> tuple[RunFigures, list[ServiceState]]:
    """Return every text that another process or another role of the database can send."""
    figures = replace(
        FULL,
        run=HOSTILE,
        game=HOSTILE,
        warnings={HOSTILE: HOSTILE},
        disk=HOSTILE,
        refused_variants=HOSTILE,
        window_blocker=HOSTILE,
    )
    inference = InferenceFigures(best_fault=HOSTILE, provider=HOSTILE, precision=HOSTILE)
    beats = [
        Heartbeat(HOSTILE, 1, HOSTILE, SelfplayFigures(), status="blocked"),
        Heartbeat("inference-1", 1, "", inference),
    ]
    return figures, [replace(each, name=f"{each.name}{HOSTILE}") for each in states_of(beats)]


def assert_harmless(text: str) -> None:
    bad = {each for each in text if not each.isprintable()} - {"\n"}
    assert (bad, "[red]x" in text, "\nforged" in text) == (set(), True, False)


def test_what_processes_say_cannot_command_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    figures, services = hostile()
    assert_harmless(status_text(figures, KEPT, services, "127.0.0.1:1"))
    assert_harmless(one_line(figures, services, 1.0))
    console = Console(file=io.StringIO(), width=2_000, color_system=None, force_terminal=False)
    console.print(draw(figures, services, 1.0))
    assert isinstance(console.file, io.StringIO)
    assert_harmless(console.file.getvalue())
    with PlainLines() as lines:
        lines.show(figures, services)
        lines.say(HOSTILE.replace("\n", " "))
    assert_harmless(capsys.readouterr().out)
    text = io.StringIO()
    LiveTable(Console(file=text, width=2_000, color_system=None)).say(HOSTILE.replace("\n", " "))
    assert_harmless(text.getvalue())


def test_commands_print_by_the_function_that_escapes() -> None:
    folder = Path(cli.__file__).parent
    direct = {path.name for path in folder.glob("*.py") if "typer.echo" in path.read_text()}
    assert direct == {"terminal.py"}
    printing = re.compile(r"(?<![\w.])print\(|std(?:out|err)\.write\((?!printable)")
    assert [path.name for path in folder.glob("*.py") if printing.search(path.read_text())] == []
