"""The tables and views in SQL: columns, types and comments, from a database."""

from __future__ import annotations

import contextlib
import tempfile
import textwrap
from collections.abc import Generator
from pathlib import Path

import psycopg2
from markdown_text import anchor, cell, inline, joined, table, with_stop

HEAD = """# SQL tables and views

`zerofleet sql` opens a read-only session of psql, and the dashboard answers queries as well.
[SQL recipes](../how-to/sql.md) has examples.
`\\d games` describes a table in psql, and `\\dv` lists the views.

Values belong to the player to move, from -1 for a loss to 1 for a win.
Results belong to the first player: White in chess, Black in Go. [`player_names`](#player_names) has the colours of a run's game.
An action is a number; [Games](games.md) says which move it is.
The comments of the database are the source of this page, which `scripts/reference` writes.
"""
# Tables of the fleet's own bookkeeping and partitions are left out.
RELATIONS = """
SELECT c.oid, c.relname, c.relkind = 'v', obj_description(c.oid)
FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v')
    AND NOT c.relispartition AND c.relname <> 'alembic_version'
ORDER BY c.relname
"""
COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
    col_description(a.attrelid, a.attnum)
FROM pg_attribute a
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
JOINER = "\N{NO-BREAK SPACE}"
SHORT = {
    "timestamp with time zone": "timestamptz",
    "double precision": "float8",
    "character varying": "varchar",
}


def render(database_url: str | None = None) -> str:
    """Return the page: the views, then the tables.

    Args:
        database_url: a database with our tables; by default one is made for the page.
    """
    with contextlib.ExitStack() as stack:
        url = database_url or stack.enter_context(_own_database())
        connection = stack.enter_context(contextlib.closing(psycopg2.connect(url)))
        cursor = connection.cursor()
        cursor.execute(RELATIONS)
        relations = cursor.fetchall()
        parts: dict[bool, list[str]] = {True: [], False: []}
        for oid, name, is_view, comment in relations:
            cursor.execute(COLUMNS, (oid,))
            columns = [
                (column, SHORT.get(kind, kind), not_null, words)
                for column, kind, not_null, words in cursor.fetchall()
            ]
            parts[is_view] += [f"### {name}", inline(comment)]
            parts[is_view].append(_listed(columns) if is_view else _table(columns))
    names = {
        kind: ", ".join(
            f"[`{name}`](#{anchor(name)})" for _, name, is_view, _ in relations if is_view == kind
        )
        for kind in parts
    }
    return joined(
        [HEAD, "## Views", names[True], *parts[True], "## Tables", names[False], *parts[False]]
    )


def _table(columns: list[tuple[str, str, bool, str | None]]) -> str:
    return table(
        ("Column", "Type", "Null", "Meaning"),
        (
            (f"`{name}`", kind, "" if not_null else "yes", with_stop(cell(words)))
            for name, kind, not_null, words in columns
        ),
    )


def _listed(columns: list[tuple[str, str, bool, str | None]]) -> str:
    """Return the columns of a view, whose words are in the view's comment."""
    words = ", ".join(f"{name} {kind}".replace(" ", JOINER) for name, kind, _, _ in columns)
    lines = [line.replace(JOINER, " ") for line in textwrap.wrap(words, 88)]
    return "\n".join(["```text", *lines, "```"])


@contextlib.contextmanager
def _own_database() -> Generator[str]:
    """Yield the URL of an embedded database with our tables."""
    from zerofleet.database.migrate import migrate
    from zerofleet.local.postgres import EmbeddedPostgres

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the server may run as another user
        with EmbeddedPostgres(Path(folder) / "postgres", {"fsync": "off"}) as server:
            migrate(server.url("owner"))
            yield server.url("owner")
