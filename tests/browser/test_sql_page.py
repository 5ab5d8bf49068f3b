"""The SQL page: a query runs, a wrong one is shown its place, nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.browser.conftest import until
from zerofleet.services.dashboard.sql_queries import run_query


def test_a_visitor_asks_and_writes_nothing(shown: Any, open_page: Callable[..., Any]) -> None:
    opened = open_page("/sql")
    page = opened.page
    run = page.get_by_role("button", name="Run", exact=True)
    fault = page.get_by_role("alert").filter(visible=True)

    write(page, "INSERT INTO runs (name, game, config) VALUES ('w', 'g', '{}') RETURNING name")
    run.click()
    expect(fault).to_have_text("permission denied for table runs")
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


def test_a_long_answer_is_shown_by_pages_and_downloaded_whole(
    open_page: Callable[..., Any],
) -> None:
    opened = open_page("/sql")
    page = opened.page
    write(page, "SELECT n, repeat('x', 2000) AS long FROM generate_series(1, 2500) AS n")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("Rows 1 to 1,000 of 2,500")).to_be_visible()
    expect(page.get_by_role("gridcell", name="1", exact=True)).to_be_visible()
    page.get_by_role("button", name="Next rows").click()
    expect(page.get_by_role("gridcell", name="1001", exact=True)).to_be_visible()
    expect(page.locator(".ag-root")).to_have_attribute("aria-rowcount", "1001")  # with its head
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert (len(lines), lines[-1]) == (2501, f"2500,{'x' * 2000}")
    assert opened.complaints == []


def test_a_text_that_is_too_long_is_undone(open_page: Callable[..., Any]) -> None:
    page = open_page("/sql").page
    write(page, "SELECT 1 AS shown")
    page.locator(".cm-content").click()
    page.keyboard.press("Control+End")
    page.keyboard.insert_text("x" * 100_000)
    expect(page.get_by_text("The editor takes at most 100,000 characters.")).to_be_visible()
    expect(page.locator(".cm-content")).to_have_text("SELECT 1 AS shown")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("1 row;")).to_be_visible()


def test_a_query_is_cancelled_when_its_page_is_closed(
    postgres: Any, role_url: Callable[[str], str], open_page: Callable[..., Any]
) -> None:
    page = open_page("/sql").page
    write(page, "SELECT pg_sleep(9)")
    page.get_by_role("button", name="Run", exact=True).click()
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    until(lambda: run_query(role_url("console"), sleeping).rows == [["1"]], str)
    log = postgres.folder / "server.log"
    before = log.read_text().count("due to user request")
    page.close()
    until(lambda: log.read_text().count("due to user request") > before, log.read_text)


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
