"""Queries that a visitor of the SQL page may run, and the server's answers to all others."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import psycopg2
import psycopg2.extensions
import pytest

from zerofleet.database.connection import connect
from zerofleet.errors import StoreUnavailableError
from zerofleet.services.dashboard import sql_queries
from zerofleet.services.dashboard.sql_page import Relation
from zerofleet.services.dashboard.sql_queries import (
    MOST_CHARACTERS,
    MOST_ROWS,
    MOST_WAITING,
    KeptAnswers,
    QueryAnswer,
    QueryFaultError,
    VisitorQueries,
    run_query,
)
from zerofleet.services.dashboard.visitors import Allowance, Visitor

ONE_THAT_ANSWERS = "only one query at a time can be run, and only one that returns rows"


def test_values_are_as_postgres_writes_them(role_url: Callable[[str], str]) -> None:
    query = """
        SELECT 1 AS one, 0.50::numeric AS half, NULL AS none, 'a,"b' AS "a b",
            '{1,2}'::int[] AS two, true AS yes, '%s' AS percent; -- a comment
    """
    answer = run_query(role_url("console"), query)
    assert answer.columns == ["one", "half", "none", "a b", "two", "yes", "percent"]
    assert answer.are_numbers == [True, True, False, False, False, False, False]
    assert answer.rows == [["1", "0.50", None, 'a,"b', "{1,2}", "t", "%s"]]
    assert (answer.cut, answer.longest) == ("", 0)
    csv = "".join(answer.csv_parts())
    assert csv == 'one,half,none,a b,two,yes,percent\n1,0.50,,"a,""b","{1,2}",t,%s\n'


def test_types_of_every_kind_are_as_psql_shows_them(role_url: Callable[[str], str]) -> None:
    query = """
        SELECT true AS a, 'c'::"char" AS a, 'ab'::char(4), 'n'::name, '1.2.3.4'::inet,
            '1.2.3.0/24'::cidr, NULL::boolean, pg_sleep(0), ROW(1, NULL, 'x"y'), ROW(NULL, NULL),
            ARRAY[ROW(1, 2)], '{"a": 1}'::jsonb, '\\x00ff'::bytea, 1e300::float8, B'101',
            '1 day'::interval, 'runs'::regclass, E'tab\\t"\\n', '', '2026-01-02'::timestamptz,
            format_type(1, NULL), ' é😀'::varchar
    """
    url = role_url("console")
    with contextlib.closing(connect(url)) as connection:
        texts = tuple(psycopg2.extensions.string_types)
        as_text = psycopg2.extensions.new_type(texts, "TEXT", lambda value, _: value)
        psycopg2.extensions.register_type(as_text, connection)
        cursor = connection.cursor()
        cursor.execute(query)
        assert run_query(url, query).rows == [list(cursor.fetchall()[0])]
    assert run_query(url, "SHOW timezone").rows == [["UTC"]]
    assert run_query(url, "EXPLAIN SELECT 1").columns == ["QUERY PLAN"]


@pytest.mark.parametrize("role", ["console", "owner"])
def test_nothing_is_written_even_by_a_role_that_could(
    database_url: str, role_url: Callable[[str], str], role: str
) -> None:
    url = role_url("console") if role == "console" else database_url
    insert = "INSERT INTO runs (name, game, config) VALUES ('written', 'g', '{}')"
    refused = "permission denied for table" if role == "console" else "read-only transaction"
    for query, error in {
        insert: ONE_THAT_ANSWERS,
        f"{insert} RETURNING name": refused,
        f"WITH w AS ({insert} RETURNING name) SELECT * FROM w": refused,
        f"SELECT 1; COMMIT; {insert}": ONE_THAT_ANSWERS,
        f"SELECT 1) AS q; COMMIT; {insert}; SELECT (1": "syntax error",
        "COMMIT": ONE_THAT_ANSWERS,
        "SET transaction_read_only = off": ONE_THAT_ANSWERS,
        "SELECT set_config('transaction_read_only', 'off', false)": "read-only transaction",
        "SELECT register_run('written', 'g', '{}')": "permission denied|read-only transaction",
        "COPY runs TO STDOUT": ONE_THAT_ANSWERS,
        "  ": "write a query",
    }.items():
        with pytest.raises(QueryFaultError, match=error):
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
    assert (len(answer.rows), answer.rows[-1]) == (MOST_ROWS, [str(MOST_ROWS)])
    assert answer.cut == "the first 10,000 rows"
    monkeypatch.setattr(sql_queries, "MOST_BYTES", 2_000_000)
    answer = run_query(url, "SELECT repeat('x', 90000) FROM generate_series(1, 10000)")
    assert len(answer.rows) < 40
    assert answer.cut.endswith("which are more than 2 MB")
    monkeypatch.setattr(sql_queries, "MOST_SECONDS", 0.3)
    slow = "SELECT set_config('statement_timeout', '0', false), pg_sleep(0.01) "
    with pytest.raises(QueryFaultError, match="and was ended"):
        run_query(url, f"{slow} FROM generate_series(1, 10000)")


def test_an_answer_is_bounded_in_columns_values_and_the_length_of_each(
    role_url: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = role_url("console")

    def nulls(columns: int) -> str:
        return f"SELECT {', '.join(['NULL'] * columns)} FROM generate_series(1, 10000)"

    with pytest.raises(QueryFaultError, match="the answer has 201 columns: select 1 to 200"):
        run_query(url, nulls(201))
    answer = run_query(url, nulls(200))
    assert (len(answer.rows), answer.cut) == (1000, "the first 1,000 rows")
    monkeypatch.setattr(sql_queries, "MOST_BYTES", 1_000_000)
    answer = run_query(url, nulls(20))  # nulls count
    assert answer.cut.endswith("which are more than 1 MB")
    assert len(answer.rows) < 1_000_000 / 20 / 20
    # The limit applies to the first row, too.
    answer = run_query(url, f"SELECT {', '.join(['repeat(chr(233), 100000)'] * 20)}")
    assert answer.longest == 1_000_000 // 20
    assert {len(value or "") for value in answer.rows[0]} == {
        50_000 + len(" ... (100000 characters)")
    }
    answer = run_query(
        url, f"SELECT repeat('x', {MOST_CHARACTERS}), repeat('y', {MOST_CHARACTERS + 1})"
    )
    whole, cut = (value or "" for value in answer.rows[0])
    assert whole == "x" * MOST_CHARACTERS
    assert cut == "y" * MOST_CHARACTERS + f" ... ({MOST_CHARACTERS + 1} characters)"
    assert answer.longest == MOST_CHARACTERS


@pytest.mark.parametrize("rows", ["", " FROM generate_series(1, 2) AS n"])
def test_an_error_does_not_bring_a_long_value_with_it(
    role_url: Callable[[str], str], rows: str
) -> None:
    number = "1000000" + (" + n" if rows else "")
    with pytest.raises(QueryFaultError, match="invalid input syntax for type integer") as found:
        run_query(role_url("console"), f"SELECT repeat('y', {number})::integer{rows}")
    assert len(str(found.value)) < 2_000


def test_a_page_of_the_grid_has_few_rows_values_and_characters() -> None:
    def starts(columns: int, rows: int, value: str | None) -> list[int]:
        answer = QueryAnswer(
            ["c"] * columns, [False] * columns, [[value] * columns] * rows, "", 0, 0
        )
        return answer.grid_starts()

    assert starts(1, 2500, "x") == [0, 1000, 2000]
    assert starts(100, 1001, None) == [0, 500, 1000]
    assert starts(1, 5000, "x" * 100_000) == [0, 1000, 2000, 3000, 4000]
    assert starts(10, 450, "x" * 1000) == [0, 200, 400]
    assert starts(3, 0, None) == [0]


def test_of_many_answers_the_oldest_are_forgotten() -> None:
    ann, bob = (Visitor(name, "viewer", Allowance(1)) for name in ("ann", "bob"))
    answer = QueryAnswer(["a"], [False], [["1"]], "", 0, 0.0)
    answers = KeptAnswers()
    stored = [answers.keep(answer, [0], 1, ann) for _ in range(5)]
    assert [answers.find(each.key, ann) for each in stored] == [None, *stored[1:]]
    assert answers.find(stored[1].key, bob) is None
    answers.forget(stored[1])
    assert answers.find(stored[1].key, ann) is None
    large = answers.keep(answer, [0], 99_999_999, bob)
    assert [answers.find(each.key, ann) for each in stored] == [None, None, None, None, stored[4]]
    assert answers.find(large.key, bob) is large


def test_a_postgres_that_is_away_is_no_fault_of_the_query() -> None:
    with pytest.raises(StoreUnavailableError, match="does not answer"):
        run_query("postgresql://nobody@127.0.0.1:1/none", "SELECT 1")


def visitors(number: int, token: str = "") -> list[Visitor]:
    return [Visitor("v", "viewer", Allowance(1), token or str(place)) for place in range(number)]


async def test_no_more_than_three_run_at_once(role_url: Callable[[str], str]) -> None:
    url = role_url("console")
    count = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%FETCH%' AND state = 'active'"
    with contextlib.closing(VisitorQueries(url)) as queries:
        running = [
            queries.run(f"SELECT pg_sleep(0.2), ({count})", visitor) for visitor in visitors(7)
        ]
        answers = await asyncio.gather(*running)
    assert max(int(each.answer.rows[0][1] or 0) for each in answers) <= 3


class Bench:
    """Queries that run until the test releases them, and the order in which they began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began: list[str] = []
        self.ended: list[str] = []
        self._gates: dict[str, threading.Event] = {}
        bench = self

        class Run:
            def __init__(self, url: str, query: str) -> None:
                self.query = query

            def answer(self) -> QueryAnswer:
                bench.began.append(self.query)
                assert bench.gate(self.query).wait(60)
                bench.ended.append(self.query)
                return QueryAnswer(["a"], [False], [], "", 0, 0.0)

            def cancel(self) -> None:
                bench.gate(self.query).set()

        monkeypatch.setattr(sql_queries, "QueryRun", Run)

    def gate(self, query: str) -> threading.Event:
        return self._gates.setdefault(query, threading.Event())

    def let_go(self, *names: str) -> None:
        for name in names:
            self.gate(name).set()


async def test_a_visitor_has_one_query_running_and_one_waiting(
    monkeypatch: pytest.MonkeyPatch, until: Callable[..., Any]
) -> None:
    bench = Bench(monkeypatch)
    ann, bob = visitors(2)
    with contextlib.closing(VisitorQueries("")) as queries:
        tasks = [asyncio.create_task(queries.run(name, ann)) for name in ("a1", "a2")]
        await until(lambda: bench.began == ["a1"])
        with pytest.raises(QueryFaultError, match="one query running and one waiting"):
            await queries.run("a3", ann)
        tasks.append(asyncio.create_task(queries.run("b1", bob)))
        await until(lambda: bench.began == ["a1", "b1"])
        bench.let_go("a1")
        await until(lambda: bench.began == ["a1", "b1", "a2"])
        bench.let_go("a2", "b1")
        await asyncio.gather(*tasks)


async def test_many_logins_with_one_token_do_not_go_before_others(
    monkeypatch: pytest.MonkeyPatch, until: Callable[..., Any]
) -> None:
    bench = Bench(monkeypatch)
    with contextlib.closing(VisitorQueries("")) as queries:
        many = [(f"m{place}", each) for place, each in enumerate(visitors(6, "many"))]
        tasks = [asyncio.create_task(queries.run(name, each)) for name, each in many]
        await until(lambda: bench.began == ["m0", "m1", "m2"])
        [other] = visitors(1, "other")
        tasks.append(asyncio.create_task(queries.run("other", other)))
        await asyncio.sleep(0)
        bench.let_go("m0")
        await until(lambda: bench.began[3:] == ["other"])
        bench.let_go("other", *(name for name, _ in many))
        await asyncio.gather(*tasks)


async def test_the_queue_has_an_end(
    monkeypatch: pytest.MonkeyPatch, until: Callable[..., Any]
) -> None:
    bench = Bench(monkeypatch)
    *others, last = visitors(3 + MOST_WAITING + 1)
    with contextlib.closing(VisitorQueries("")) as queries:
        tasks = [
            asyncio.create_task(queries.run(str(place), each)) for place, each in enumerate(others)
        ]
        await until(lambda: len(bench.began) == 3)
        with pytest.raises(QueryFaultError, match=r"30 queries are waiting already\. Try again"):
            await queries.run("last", last)
        for task in tasks[3:]:  # waiting queries leave when their pages are closed
            task.cancel()
        await asyncio.gather(*tasks[3:], return_exceptions=True)
        bench.let_go("last", "0", "1", "2")
        await queries.run("last", last)
        assert bench.began == ["0", "1", "2", "last"]
        await asyncio.gather(*tasks[:3])


async def test_a_cancelled_query_ends_in_postgres(
    role_url: Callable[[str], str], until: Callable[..., Any]
) -> None:
    url = role_url("console")
    active = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%FETCH answer%'"
    sleeping = f"{active} AND wait_event = 'PgSleep'"

    def count(query: str) -> int:
        return int(run_query(url, query).rows[0][0] or 0)

    [ann] = visitors(1)
    with contextlib.closing(VisitorQueries(url)) as queries:
        # It would run longer than this test may take.
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sql_queries, "MOST_SECONDS", 1000)
            running = asyncio.create_task(queries.run("SELECT pg_sleep(900)", ann))
            await until(lambda: count(sleeping) == 1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: count(sleeping) == 0)
        assert (await queries.run("SELECT 1", ann)).answer.rows == [["1"]]  # the next query can run


def test_a_saved_query_is_of_the_run_whatever_its_name(role_url: Callable[[str], str]) -> None:
    view = Relation("resign_audit", is_view=True, comment="", columns=("run", "games"))
    query = view.saved_query("it's'; DROP TABLE runs")
    assert run_query(role_url("console"), query).rows == []
    assert "WHERE" not in Relation("runs", False, "", ("name",)).saved_query("x")


def test_every_view_says_what_it_is(database_url: str, role_url: Callable[[str], str]) -> None:
    from zerofleet.services.dashboard.sql_page import _RELATIONS

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
    for query in (
        f'EXPLAIN (U&"anal\\0079ze") {sorts}',
        f"EXPLAIN (costs off, U&\"anal!0079ze\" UESCAPE '!') {sorts}",
        f'EXPLAIN (costs /* ) */ off, U&"anal\\0079ze") {sorts}',
        f"EXPLAIN (costs 'off', U&\"anal\\0079ze\") {sorts}",
        f'-- of mine\n explain\n( U&"anal\\0079ze" ) {sorts}',
        f'EXPLAIN /* ... */ (U&"anal\\0079ze") {sorts}',
        f'EXPLAIN -- ...\n (U&"anal\\0079ze") {sorts}',
    ):
        with pytest.raises(QueryFaultError, match="EXPLAIN is allowed with options of plain words"):
            run_query(url, query)
    for query in (
        f'/* /* */ EXPLAIN (costs off) */ EXPLAIN (U&"anal\\0079ze") {sorts}',
        "FETCH ALL FROM answer",
    ):
        with pytest.raises(QueryFaultError):
            run_query(url, query)
    for query in (
        f"EXPLAIN {sorts}",
        f"-- of mine\nexplain (costs off, FORMAT json, verbose) {sorts}",
        'EXPLAIN VERBOSE SELECT "name" FROM runs',
        "EXPLAIN(costs off)SELECT 1",
    ):
        assert run_query(url, query).columns == ["QUERY PLAN"]
    assert run_query(url, " \n-- mine\n show server_version_num").columns == ["server_version_num"]
    assert run_query(url, "SHOW statement_timeout").rows[0][0] is not None
    assert run_query(url, "VALUES (1)").rows == [["1"]]
    assert run_query(url, "SELECT 'analyze' AS word").rows == [["analyze"]]
