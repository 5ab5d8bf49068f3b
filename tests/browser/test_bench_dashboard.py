"""The benchmark of the page, on a small database."""

from __future__ import annotations

import json

import pytest

from bench import dashboard


def test_every_page_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--game", "tic_tac_toe", "--games", "3000", "--positions", "5000", "--pages", "3"]
    dashboard.main([*sizes, "--seconds", "1", "--blocks", "1", "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    opened = {row["page"]: row for row in rows if "p95_ms" in row}
    assert {"/", "/fleet", "/sql"} <= opened.keys()
    assert all(row["first_paint_ms"] > 0 for row in opened.values())
    assert opened["/"]["statements"] > 0
    assert 0 < opened["/"]["median_ms"] <= opened["/"]["p95_ms"] <= opened["/"]["longest_ms"]
    assert [row["open_pages"] for row in rows if "open_pages" in row] == [0, 1, 3]
