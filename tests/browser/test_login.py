"""A visitor logs in, in a browser that enforces the page's headers."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from zerofleet.secrets.tokens import add_token


def test_a_visitor_logs_in_looks_and_leaves(
    shown: Any, open_page: Callable[..., Any], tmp_path: Path
) -> None:
    tokens = tmp_path / "roles.toml"
    token = add_token(tokens, "ann", "viewer")
    shown.environment["ZEROFLEET_TOKEN_ROLES_FILE"] = str(tokens)
    shown.process.terminate()
    assert shown.process.wait(120) == 0, shown.process.output()
    shown.process = shown.start()

    opened = open_page("/fleet")
    page = opened.page
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("This token is not known here.")).to_be_visible()
    page.get_by_label("Token").fill(token)
    opened.complaints.clear()  # the refusal was one
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_title("Fleet · shown · zerofleet")
    assert page.url == f"{shown.base}/fleet"
    # The previous dashboard's heartbeat may still be there; the page then shows both.
    expect(page.get_by_text("Running (1 open page)").first).to_be_attached()
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert opened.complaints == []
    page.get_by_label("Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    output = shown.process.output()
    assert token not in output
    assert not re.search(r"client_id|socket\.io", output)
