"""Markdown that several pages of the reference share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path


def joined(parts: Iterable[str]) -> str:
    """Return blocks of Markdown with an empty line between them."""
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; empty if it has no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    rule = "|---" * len(head) + "|"
    return "\n".join([f"| {' | '.join(head)} |", rule, *lines]) + "\n" if lines else ""


def cell(text: str | None) -> str:
    """Return a docstring or a comment as one cell of a table.

    A bar must not be in code: Markdown's dialects escape it there in different ways.
    """
    return inline(text).replace("|", r"\|")


def inline(text: str | None) -> str:
    """Return a text in one line, with code as Markdown marks it."""
    return " ".join((text or "").split()).replace("``", "`")


def with_stop(text: str) -> str:
    """Return a text that ends as a sentence."""
    return text if not text or re.search(r"[.:!?]$", text) else f"{text}."


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def shown(value: object) -> str:
    """Return a default as TOML would write it."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{list(value)}`"
    return f'`"{value}"`' if isinstance(value, str | Path) else f"`{value}`"
