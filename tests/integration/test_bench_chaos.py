"""The chaos run detects faults in the data, and its seed determines the sequence of failures."""

import contextlib
import json
import socket
from pathlib import Path
from uuid import uuid4

import psycopg2
import pytest

from bench.chaos import Result, fault_of, parse, read_rows, share_rounds, show
from bench.chaos_checks import Ledger, Watch
from bench.chaos_faults import KINDS, StallingProxy
from bench.chaos_fleet import NAME, ChaosFleet
from zerofleet.database import Database
from zerofleet.errors import ConfigError
from zerofleet.redis_connection import open_redis


def test_the_seed_gives_the_faults_and_each_kind_comes_once_before_any_comes_again() -> None:
    kinds, rounds = list(KINDS), range(1, 2 * len(KINDS) + 1)
    faults = [fault_of(number, 7, kinds) for number in rounds]
    assert faults == [fault_of(number, 7, kinds) for number in rounds]
    assert faults != [fault_of(number, 8, kinds) for number in rounds]
    assert sorted(faults[: len(kinds)]) == sorted(faults[len(kinds) :]) == sorted(kinds)


def test_a_line_of_the_ledger_counts_when_it_is_whole(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.read()
    with ledger.path.open("w") as file:
        file.write("a finished 9\na stored\nb finished 7\nb sto")
        file.flush()
        ledger.read()
        assert (ledger.finished, ledger.answered) == ({"a", "b"}, {"a"})
        file.write("red\na stored\n")
    ledger.read()
    assert (ledger.stored, ledger.answered) == ({"a": 2, "b": 1}, {"a", "b"})


def test_what_is_missing_twice_or_moved_back_is_seen(
    database_url: str,
    database: Database,
    valkey_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = {"owner": database_url, "redis": valkey_url}
    monkeypatch.setattr(ChaosFleet, "urls", lambda self: where)
    fleet = ChaosFleet(tmp_path)
    watch = Watch(fleet)
    assert watch.check().broken == []
    lost = uuid4()
    fleet.ledger.write_text(
        f"{lost} finished 9\n{lost} stored\n{lost} stored\n{uuid4()} finished 8\n"
    )
    database.acquire_fence("test", "trainer", above=5)
    client, _ = open_redis(valkey_url)
    best = f"zerofleet:{NAME}:best"
    client.hset(best, mapping={"seq": 3, "version": 1, "sha256": "0" * 64})
    first = watch.check()
    assert (first.missing, first.twice, first.stored) == (1, 1, 0)
    assert len(first.broken) == 3
    assert "does not load" in first.broken[2]
    client.hset(best, "seq", 2)
    client.close()
    with contextlib.closing(psycopg2.connect(database_url)) as connection:
        connection.cursor().execute("UPDATE fences SET epoch = 5")
        connection.commit()
    then = watch.check_at_the_end()
    # the missing game was already reported
    assert (then.missing, then.twice, then.gone) == (0, 0, 1)
    assert "the epoch of trainer fell" in then.broken
    assert "the pointer moved back from 3 to 2" in then.broken


def test_rounds_of_another_seed_are_not_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rounds.jsonl"
    about = {"round": 1, "seed": 7, "version": "1", "at": "2026-01-01", "kind": "Redis wiped"}
    row = {**about, **vars(Result(settled_s=1.5, acknowledged=1234))}
    broken = {**row, "round": 2, "kind": "disk full", "broken": ["something"], "settled_s": None}
    out.write_text(f"{json.dumps(row)}\n{json.dumps(broken)}\n{{half a li")
    rows = read_rows(out, 7)
    assert [row["round"] for row in rows] == [1, 2]
    show(rows)
    cells = [
        [cell.strip() for cell in line.split("|")] for line in capsys.readouterr().out.split("\n")
    ]
    assert ["", "Redis wiped", "1", "1,234", *"0000", "1.5", "1.5", "1 of 1", ""] in cells
    assert ["", "all", "2", "2,468", *"0000", "1.5", "1.5", "1 of 2", ""] in cells
    with pytest.raises(ConfigError, match="has rounds of seed 7: pass that --seed"):
        read_rows(out, 8)
    with pytest.raises(SystemExit):
        parse(["--kinds", "no such kind"])


def test_fleets_side_by_side_share_the_rounds_and_have_seeds_and_files_of_their_own() -> None:
    shares = share_rounds(parse(["--rounds", "10", "--seed", "7", "--fleets", "3"]))
    assert [(share.seed, share.rounds, share.out.name) for share in shares] == [
        (7, 4, "chaos-7.jsonl"),
        (8, 3, "chaos-8.jsonl"),
        (9, 3, "chaos-9.jsonl"),
    ]
    [one] = share_rounds(parse(["--rounds", "10", "--out", "rounds.jsonl"]))
    assert (one.rounds, one.out.name) == (10, "rounds.jsonl")
    with pytest.raises(SystemExit):
        parse(["--fleets", "2", "--out", "rounds.jsonl"])


def test_a_stalled_proxy_keeps_bytes_and_passes_them_on_later() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = StallingProxy(server.getsockname()[1])
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            there, _ = server.accept()
            client.sendall(b"a")
            assert there.recv(1) == b"a"
            proxy.stall()
            client.sendall(b"b")
            there.settimeout(0.05)
            with pytest.raises(TimeoutError):
                there.recv(1)
            there.settimeout(30)
            proxy.flow()
            assert there.recv(1) == b"b"
            proxy.close()
            assert there.recv(1) == b""
            there.close()
