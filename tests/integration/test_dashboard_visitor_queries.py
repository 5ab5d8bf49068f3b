"""What a visitor of the SQL page may ask, and what the server answers to everything else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import psycopg2
import pytest

from services.dashboard import visitor_queries
from services.dashboard.sql_page import Relation
from services.dashboard.visitor_queries import (
    MOST_ROWS,
    QueryFaultError,
    VisitorQueries,
    run_query,
)
from zerofleet.errors import StoreUnavailableError

ONE_THAT_ANSWERS = "only one query at a time can be asked, and only one that answers with rows"


def test_values_are_as_postgres_writes_them(role_url: Callable[[str], str]) -> None:
    query = """
        SELECT 1 AS one, 0.50::numeric AS half, NULL AS none, 'a,"b' AS "a b",
            '{1,2}'::int[] AS two, true AS yes, '%s' AS percent; -- and no more
    """
    answer = run_query(role_url("console"), query)
    assert answer.columns == ["one", "half", "none", "a b", "two", "yes", "percent"]
    assert answer.are_numbers == [True, True, False, False, False, False, False]
    assert answer.rows == [("1", "0.50", None, 'a,"b', "{1,2}", "t", "%s")]
    assert answer.cut == ""
    assert answer.as_csv() == ('one,half,none,a b,two,yes,percent\n1,0.50,,"a,""b","{1,2}",t,%s\n')


@pytest.mark.parametrize("role", ["console", "owner"])
def test_nothing_is_written_even_by_a_role_that_could(
    database_url: str, role_url: Callable[[str], str], role: str
) -> None:
    url = role_url("console") if role == "console" else database_url
    insert = "INSERT INTO runs (name, game, config) VALUES ('written', 'g', '{}')"
    for query, said in {
        insert: ONE_THAT_ANSWERS,
        f"{insert} RETURNING name": "read-only transaction",
        f"WITH w AS ({insert} RETURNING name) SELECT * FROM w": "read-only transaction",
        f"SELECT 1; COMMIT; {insert}": ONE_THAT_ANSWERS,
        f"SELECT 1) AS q; COMMIT; {insert}; SELECT (1": "syntax error",
        "COMMIT": ONE_THAT_ANSWERS,
        "SET transaction_read_only = off": ONE_THAT_ANSWERS,
        "SELECT set_config('transaction_read_only', 'off', false)": "must be set before any query",
        "SELECT register_run('written', 'g', '{}')": "permission denied|read-only transaction",
        "COPY runs TO STDOUT": ONE_THAT_ANSWERS,
        "  ": "write a query",
    }.items():
        with pytest.raises(QueryFaultError, match=said):
            run_query(url, query)
    assert run_query(url, "SELECT name FROM runs WHERE name = 'written'").rows == []


def test_a_superuser_is_refused(role_url: Callable[[str], str]) -> None:
    with pytest.raises(QueryFaultError, match="let it log in as zerofleet_console"):
        run_query(role_url("superuser"), "SELECT pg_read_file('/etc/passwd')")


def test_a_fault_names_its_place(role_url: Callable[[str], str]) -> None:
    with pytest.raises(QueryFaultError, match='column "nothing" does not exist') as found:
        run_query(role_url("console"), "SELECT 'é',\n  nothing FROM runs")
    assert found.value.place == len("SELECT 'é',\n  ")


def test_an_answer_is_bounded_in_time_rows_and_bytes(
    role_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = role_url("console")
    answer = run_query(url, f"SELECT n FROM generate_series(1, {MOST_ROWS + 1}) AS n")
    assert (len(answer.rows), answer.rows[-1]) == (MOST_ROWS, (str(MOST_ROWS),))
    assert answer.cut == "the first 10,000 rows"
    monkeypatch.setattr(visitor_queries, "MOST_BYTES", 2_000_000)
    answer = run_query(url, "SELECT repeat('x', 300000) FROM generate_series(1, 10000)")
    assert len(answer.rows) < 40
    assert answer.cut.endswith("which are more than 2 MB")
    monkeypatch.setattr(visitor_queries, "MOST_SECONDS", 0.3)
    slow = "SELECT set_config('statement_timeout', '0', false), pg_sleep(0.01) "
    with pytest.raises(QueryFaultError, match="and was ended"):
        run_query(url, f"{slow} FROM generate_series(1, 10000)")


def test_a_postgres_that_is_away_is_no_fault_of_the_query() -> None:
    with pytest.raises(StoreUnavailableError, match="does not answer"):
        run_query("postgresql://nobody@127.0.0.1:1/none", "SELECT 1")


async def test_no_more_than_three_run_at_once(role_url: Callable[[str], str]) -> None:
    url = role_url("console")
    count = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'FETCH%' AND state = 'active'"
    with contextlib.closing(VisitorQueries(url)) as queries:
        asked = [queries.run(f"SELECT pg_sleep(0.2), ({count})") for _ in range(7)]
        answers = await asyncio.gather(*asked)
    assert max(int(answer.rows[0][1] or 0) for answer in answers) <= 3


def test_a_saved_query_is_of_the_run_whatever_its_name(role_url: Callable[[str], str]) -> None:
    view = Relation("resign_audit", is_view=True, comment="", columns=("run", "games"))
    query = view.saved_query("it's'; DROP TABLE runs")
    assert run_query(role_url("console"), query).rows == []
    assert "WHERE" not in Relation("runs", False, "", ("name",)).saved_query("x")


def test_every_view_says_what_it_is(database_url: str, role_url: Callable[[str], str]) -> None:
    from services.dashboard.sql_page import _RELATIONS

    answer = run_query(role_url("console"), _RELATIONS)
    views = [row for row in answer.rows if row[1] == "t"]
    with contextlib.closing(psycopg2.connect(database_url)) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT count(*) FROM pg_views WHERE schemaname = 'public'")
        assert cursor.fetchone() == (len(views),)
    assert all(comment and comment.endswith(".") for _, _, comment, _ in views)


def test_a_query_that_costs_too_much_is_refused_before_it_runs(
    role_url: Callable[[str], str],
) -> None:
    url = role_url("visitor")
    sorts = "SELECT g, repeat(md5(g::text), 25) FROM generate_series(1, 20000000) AS g ORDER BY 2"
    for query in (sorts, f"/* a comment */ {sorts}", f"({sorts})", f"WITH s AS ({sorts}) TABLE s"):
        with pytest.raises(
            QueryFaultError, match=r"at [4-9],\d{3},\d{3}, and at most 3,000,000 is"
        ):
            run_query(url, query)
    for query in (f"EXPLAIN ANALYZE {sorts}", f"EXPLAIN (analyse, costs off) {sorts}"):
        with pytest.raises(QueryFaultError, match="Leave ANALYZE out"):
            run_query(url, query)
    assert run_query(url, f"EXPLAIN {sorts}").columns == ["QUERY PLAN"]
    assert run_query(url, "SHOW statement_timeout").rows[0][0] is not None
    assert run_query(url, "VALUES (1)").rows == [("1",)]
    assert run_query(url, "SELECT 'analyze' AS word").rows == [("analyze",)]
