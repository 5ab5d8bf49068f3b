"""The list of games answers as plain SQL does, and its queries are bounded by an index."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from zerofleet.config import run_from_values
from zerofleet.database import Database
from zerofleet.services.dashboard import games_page
from zerofleet.services.dashboard.frame import NothingThereError
from zerofleet.services.dashboard.games_page import (
    GameFilter,
    GamePage,
    read_games,
    statement_of,
)
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.dashboard.sources import Sources

FILL = """
WITH stored AS (
    INSERT INTO games (game_uid, run, kind, first_model, second_model, result, reason, length,
        worker, started_at, finished_at, moves, content_sha256, began_at, ingested_at)
    SELECT md5(i::text)::uuid, 'test', CASE WHEN i % 7 = 0 THEN 'match' ELSE 'selfplay' END,
        i / 40, CASE WHEN i % 7 = 0 THEN i / 40 + 1 ELSE i / 40 END, i % 3 - 1,
        CASE WHEN i % 5 = 0 THEN 'resign' ELSE 'rules' END, 5 + i % 6, 'w', now(), now(), 'a1 b2',
        decode(repeat('00', 32), 'hex'), now(),
        timestamptz '2026-01-01 22:00+00' + (i / 9) * interval '1 minute'
    FROM generate_series(1, :games) AS i RETURNING 1
) SELECT count(*) FROM stored
"""
CASES = {
    "true": GameFilter(),
    "kind = 'match'": GameFilter(kind="match"),
    "kind = 'selfplay' AND result = 1": GameFilter(kind="selfplay", result="first"),
    "4 IN (first_model, second_model)": GameFilter(model=4),
    "reason = 'resign' AND length BETWEEN 6 AND 8": GameFilter(reason="resign", least=6, most=8),
    "ingested_at::date = '2026-01-01' AND result = 0": GameFilter(
        day=date(2026, 1, 1), result="draw"
    ),
    "game_uid IN (SELECT game_uid FROM match_games)": GameFilter(kind="rating"),
}


def in_sources(role_url: Callable[[str], str], valkey_url: str, ask: Callable[..., object]) -> None:
    run = run_from_values({"name": "test", "game": {"name": "tic_tac_toe"}})
    settings = DashboardSettings(
        run_file=Path("run.toml"), database_url=role_url("console"), redis_url=valkey_url
    )

    async def asked() -> None:
        async with Sources(run, settings) as sources:
            await ask(sources)

    asyncio.run(asked())


def test_each_filter_finds_what_sql_finds_however_far_it_has_to_look(
    database: Database,
    role_url: Callable[[str], str],
    valkey_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database._rows(FILL, games=400)
    epoch = database.acquire_fence("test", "evaluator")
    [[match]] = database._rows(
        "INSERT INTO matches (run, kind, player, opponent, games, num_simulations, seed, epoch) "
        "VALUES ('test', 'rating', 'search', 'random', 2, 10, 1, :epoch) RETURNING match_id",
        epoch=epoch,
    )
    database._rows(
        "INSERT INTO match_games (match_id, opening, color, game_uid, score) "
        "SELECT :match, 0, i, md5((7 * (i + 1))::text)::uuid, 1 FROM generate_series(0, 1) AS i "
        "RETURNING 1",
        match=match,
    )
    monkeypatch.setattr(games_page, "MOST_LOOKED_AT", 90)
    monkeypatch.setattr(games_page, "PAGE_GAMES", 20)

    async def ask(sources: Sources) -> None:
        for condition, chosen in CASES.items():
            found: list[str] = []
            page: GamePage | None = None
            while page is None or page.before is not None:
                page = await read_games(sources, "test", chosen, page.before if page else None)
                assert page.looked <= 90
                assert len(page.games) <= 20
                found += [game.game_uid for game in page.games]
            wanted = database._rows(
                f"SELECT game_uid::text FROM games WHERE {condition} "
                "ORDER BY ingested_at DESC, game_uid DESC"
            )
            assert wanted, condition
            assert found == [row[0] for row in wanted], condition

    in_sources(role_url, valkey_url, ask)


def test_no_query_reads_the_whole_table(database: Database) -> None:
    database._rows(FILL, games=4_000)
    database._rows("ANALYZE games; SELECT 1")
    before = "20260102T000000.000000-" + "8" * 32
    for chosen in CASES.values():
        statement, given = statement_of(chosen, before)
        given["looked"] = 50
        with database._transaction() as connection:
            plan = connection.execute(text(f"EXPLAIN {statement}"), {"run": "test", **given})
            lines = [row[0] for row in plan]
        assert not [line for line in lines if "Seq Scan on games" in line], (chosen, lines)


def test_what_a_link_says_is_checked() -> None:
    given = {"kind": "gate", "model": "12", "day": "2026-01-31", "least": "", "run": "x"}
    read = GameFilter.of(given)
    assert read == GameFilter(kind="gate", model=12, day=date(2026, 1, 31))
    assert GameFilter.of({k: str(v) for k, v in read.parameters().items() if v}) == read
    for name, value in (
        ("kind", "x"),
        ("model", "-1"),
        ("model", "99999999999999"),
        ("most", "²"),
        ("day", "yesterday"),
        ("result", "1"),
    ):
        with pytest.raises(NothingThereError, match=f"^{name}={value}"):
            GameFilter.of({name: value})
    with pytest.raises(NothingThereError, match="is not a page of games"):
        statement_of(GameFilter(), "x")


@given(
    name=st.sampled_from(["model", "least", "most", "day", "kind", "result", "reason"]),
    text=st.text(max_size=12)
    | st.sampled_from(["9" * 5000, "0" * 30 + "9" * 20, "\0", "9999-12-31", "0001-01-01", "٣"]),
)
def test_any_parameter_is_a_filter_or_refused(name: str, text: str) -> None:
    said = ""
    try:
        statement_of(GameFilter.of({name: text}), None)
    except NothingThereError as error:
        said = str(error)
    assert len(said) < 200
