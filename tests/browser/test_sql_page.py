"""The SQL page: a query runs, a wrong one is shown its place, nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import expect


def test_a_visitor_asks_and_writes_nothing(shown: Any, open_page: Callable[..., Any]) -> None:
    opened = open_page("/sql")
    page = opened.page
    run = page.get_by_role("button", name="Run", exact=True)
    fault = page.get_by_role("alert").filter(visible=True)

    write(page, "INSERT INTO runs (name, game, config) VALUES ('w', 'g', '{}') RETURNING name")
    run.click()
    expect(fault).to_have_text("cannot execute INSERT in a read-only transaction")
    write(page, "DELETE FROM runs")
    page.keyboard.press("Control+Enter")
    expect(fault).to_contain_text("nothing is written here")
    write(page, "SELECT name,\n  nothing FROM runs")
    run.click()
    expect(fault).to_have_text('line 2, character 3: column "nothing" does not exist')
    expect(page.locator(".zf-marked")).to_have_text("nothing")

    write(page, "SELECT name, '<i>a</i>' AS markup FROM runs")
    run.click()
    expect(page.get_by_text("1 row;")).to_be_visible()
    expect(fault).to_have_count(0)
    expect(page.get_by_role("gridcell", name="<i>a</i>")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    csv = Path(download.value.path()).read_text()
    assert csv == "name,markup\nshown,<i>a</i>\n"

    page.get_by_role("button", name="training_curve").click()
    expect(page.get_by_text("0 rows;")).to_be_visible()
    expect(page.locator(".cm-content")).to_contain_text("WHERE run = 'shown'")
    assert shown.query("SELECT name FROM runs") == [("shown",)]
    assert opened.complaints == []


def test_tables_and_columns_are_offered(shown: Any, open_page: Callable[..., Any]) -> None:
    page = open_page("/sql").page
    expect(page.get_by_role("button", name="resign_audit")).to_be_visible()
    write(page, "SELECT games.resign_thr")
    expect(page.get_by_role("option", name="resign_threshold")).to_be_visible()


def write(page: Any, query: str) -> None:
    """Put a query into the editor, as if it had been pasted, its last letter typed."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(query[:-1])
    page.keyboard.type(query[-1])
