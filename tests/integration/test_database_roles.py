"""Actions forbidden to each role, tried for real: the grants are the fence, not good manners."""

from collections.abc import Callable, Iterator

import psycopg2
import pytest
from psycopg2 import errors

from tests.support.databases import DatabaseTemplate
from tests.support.random_records import random_record
from zerofleet.config import run_from_values
from zerofleet.database import Database, EvaluatorDatabase, MatchGame, Submission, TrainerDatabase
from zerofleet.errors import ConfigError, StaleEpochError
from zerofleet.verdict import GateRule

ROLES = ("worker", "trainer", "evaluator", "console", "visitor")
EVERYBODY = {"runs", "models", "promotions", "alembic_version", "definitions", "model_variants"}
TABLES = EVERYBODY | {
    *("games", "positions", "unfinished_games", "unreadable_games", "refused_games"),
    *("matches", "match_games", "exams", "ratings"),
    *("fences", "train_metrics", "train_events", "trainer_progress", "resign_thresholds"),
    *("origins", "restarts"),
    *("position_partitions", "position_needs", "partition_tries"),
}
VIEWS = {
    *("games_per_hour", "model_summary", "openings", "value_calibration", "game_length"),
    *("duplicates", "game_moves", "promotion_history", "match_history", "variant_history"),
    *("resign_audit", "resign_check", "resign_history", "training_curve", "value_by_stage"),
    *("player_names", "rated_games", "ratings_with_interval", "positions_on_disk"),
    *("recent_play", "training_warnings", "exam_results", "rejected_games"),
    "largest_mistakes",
}
MAY_READ = {
    "worker": EVERYBODY,
    "trainer": EVERYBODY
    | {"games", "positions", "unreadable_games", "position_needs", "position_partitions"}
    | {"train_metrics", "train_events", "trainer_progress", "resign_thresholds", "recent_play"}
    | {"origins", "restarts"}
    | {"training_warnings", "rejected_games"},
    "evaluator": EVERYBODY
    | {"games", "matches", "match_games", "rated_games", "exams", "ratings", "fences"},
    "console": TABLES | VIEWS,
    "visitor": TABLES | VIEWS,
}
MAY_INSERT = {
    "worker": set[str](),
    "trainer": {"models", "model_variants", "unreadable_games", "rejected_games", "position_needs"}
    | {"train_metrics", "train_events", "trainer_progress", "resign_thresholds", "restarts"},
    "evaluator": {"matches", "match_games", "promotions", "exams", "ratings"},
    "console": set[str](),
    "visitor": set[str](),
}
MAY_UPDATE = {  # all columns where none are named
    ("trainer", "train_metrics"): set[str](),
    ("trainer", "position_needs"): set[str](),
    ("trainer", "trainer_progress"): set[str](),
    ("trainer", "restarts"): set[str](),
    ("evaluator", "ratings"): {"elo", "elo_error", "games", "at"},
    ("evaluator", "matches"): {"games", "epoch", "verdict", "score", "decided_at"}
    | {"decided_by", "llr", "games_counted", "duplicates", "pentanomial", "left_out"},
}
FUNCTIONS = {
    "submit_games('r', 'w', '[]')": {"worker", "evaluator"},
    "save_unfinished('r', 'w', '[]', 1)": {"worker"},
    "adopt_unfinished('r', 'w', 1, 1)": {"worker"},
    "reject_unfinished('r', 'w', gen_random_uuid(), 1, 'why')": {"worker"},
    "extend_leases('r', 'w', '{}', 1)": {"worker"},
    "release_unfinished('r', 'w')": {"worker"},
    "acquire_fence('r', 'trainer')": {"trainer"},
    "acquire_fence('r', 'evaluator')": {"evaluator"},
    "register_run('r', 'g', '{}')": {"trainer", "evaluator"},
    "run_fault('r', 'g', '{}')": set[str](),
    "retention_number('{}', 'partition_hours')": set[str](),
    "bound_conflicts()": set[str](),
    "bound_version()": set[str](),
    "last_v_resign('r')": {"worker", "trainer", "console", "visitor"},
    "played_on_games('r', 1, 1)": {"trainer", "console", "visitor"},
    "resign_curve('r', 1, 1)": {"trainer", "console", "visitor"},
    "record_fault(NULL, 'g', 1, 1)": set[str](),
    "column_fault('c', '{}'::integer[], 1)": set[str](),
    "check_unfinished('{}', 'g', 1)": set[str](),
    "make_partitions(1, now())": {"trainer"},
    "drop_partition()": {"trainer"},
    "delete_old_positions(1)": {"trainer"},
    "has_partition(now())": set[str](),
    "partitions_due()": set[str](),
    "positions_needed()": {"trainer"},
    "searches_per_day()": {"trainer", "console", "visitor"},
    "partition_size()": set[str](),
    "give_up_models('r', 2, 0, '1 day', 1)": {"trainer"},
    "removable_files('r')": {"trainer"},
    "model_is_held('r', 1)": set[str](),
    "first_game_uid(now())": {"trainer", "console", "visitor"},
    "game_began(gen_random_uuid())": {"trainer", "console", "visitor"},
    "window_end()": {"trainer"},
    "positions_ahead('r', 1, 1)": {"worker"},
    "restarts_of('r')": {"worker", "trainer", "console", "visitor"},
    "window_blocker('r')": {"trainer", "console", "visitor"},
    "check_fence()": set[str](),
    "keep_files()": set[str](),
    "never_by_console()": set[str](),
    "forbid_change()": set[str](),
    "forbid_rewriting()": set[str](),
}
OTHERS = (
    "CREATE TABLE public.t (a int)",
    "CREATE FUNCTION public.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE VIEW public.v AS SELECT 1",
    "CREATE SCHEMA s",
    "CREATE INDEX ON games (run)",
    "CREATE TRIGGER t BEFORE INSERT ON games FOR EACH ROW EXECUTE FUNCTION check_fence()",
    "DROP TABLE games",
    "ALTER TABLE games DISABLE TRIGGER ALL",
    "DROP TRIGGER append_only ON promotions",
    "DROP TRIGGER append_only ON resign_thresholds",
    "DO $$ BEGIN LOCK TABLE games IN EXCLUSIVE MODE; END $$",
    "SELECT setval('matches_match_id_seq', 1)",
    "SELECT nextval('matches_match_id_seq')",
    "SET ROLE zerofleet",
    "SET SESSION AUTHORIZATION zerofleet",
    "CREATE ROLE another",
    "ALTER ROLE zerofleet PASSWORD 'x'",
    "COPY games TO PROGRAM 'cat'",
    "COPY games TO '/tmp/games'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT * FROM pg_authid",
    "SELECT lo_create(0)",
    "SELECT lo_creat(-1)",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT lo_put(1, 0, 'x')",
    "SELECT lowrite(1, 'x')",
)


@pytest.fixture(params=ROLES)
def role(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def refused(role_url: Callable[[str], str], role: str) -> Iterator[Callable[[str], bool]]:
    """Whether the role may not run a statement; the statement's other errors do not matter."""
    connection = psycopg2.connect(role_url(role))
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("SET default_transaction_read_only = off")  # anybody may; it protects nothing

    def try_it(statement: str) -> bool:
        try:
            cursor.execute(statement)
        except errors.InsufficientPrivilege:
            return True
        except psycopg2.Error:
            return False
        return False

    yield try_it
    connection.close()


def columns(url: str) -> dict[str, list[str]]:
    """The columns of every table and view that there is."""
    connection = psycopg2.connect(url)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, array_agg(attname::text) FROM pg_class "
            "JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped "
            "WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm') "
            "AND NOT relispartition "  # a partition is read through its table
            "GROUP BY relname"
        )
        found = dict(cursor.fetchall())
    connection.close()
    return found


def test_these_are_all_tables_views_and_functions(database_url: str) -> None:
    assert columns(database_url).keys() == TABLES | VIEWS
    connection = psycopg2.connect(database_url)
    with connection.cursor() as cursor:
        cursor.execute("SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace")
        functions = {name for (name,) in cursor.fetchall()}
    connection.close()
    assert functions == {call.partition("(")[0] for call in FUNCTIONS}


def test_tables(refused: Callable[[str], bool], role: str, database_url: str) -> None:
    for table, names in columns(database_url).items():
        assert refused(f"SELECT * FROM {table} LIMIT 0") == (table not in MAY_READ[role]), table
        if table in VIEWS:
            assert refused(f"CREATE OR REPLACE VIEW {table} AS SELECT 1"), table
            continue
        insert = f"INSERT INTO {table} DEFAULT VALUES"
        assert refused(insert) == (table not in MAY_INSERT[role]), table
        may = MAY_UPDATE.get((role, table))
        for name in names:
            allowed = may is not None and (name in may or not may)
            update = f'UPDATE {table} SET "{name}" = DEFAULT WHERE false'
            assert refused(update) != allowed, f"{table}.{name}"
        assert refused(f"DELETE FROM {table} WHERE false"), table
        assert refused(f"TRUNCATE {table}"), table


def test_functions(refused: Callable[[str], bool], role: str) -> None:
    for call, allowed in FUNCTIONS.items():
        assert refused(f"SELECT {call}") == (role not in allowed), call


def test_everything_else(refused: Callable[[str], bool]) -> None:
    for statement in OTHERS:
        assert refused(statement), statement


def test_the_roles_have_limits_of_their_own(
    database_template: DatabaseTemplate, role_url: Callable[[str], str]
) -> None:
    """For connections that a pooler makes, which come without our options."""
    del database_template
    for role in ROLES:
        connection = psycopg2.connect(role_url(role))
        with connection.cursor() as cursor:
            for setting, expected in {
                "statement_timeout": "30s" if role in {"console", "visitor"} else "1min",
                "idle_in_transaction_session_timeout": "1min",
                "jit": "off",
            }.items():
                cursor.execute(f"SHOW {setting}")
                assert cursor.fetchone() == (expected,), (role, setting)
            if role not in {"console", "visitor"}:
                cursor.execute("SHOW max_parallel_workers_per_gather")
                assert cursor.fetchone() == ("0",)
            cursor.execute(
                "SELECT rolname, rolconnlimit FROM pg_roles WHERE rolname LIKE 'zerofleet\\_%'"
            )
            assert dict(cursor.fetchall()) == {
                "zerofleet_worker": -1,
                "zerofleet_trainer": 20,
                "zerofleet_evaluator": 50,
                "zerofleet_console": 20,
                "zerofleet_visitor": 10,
            }
            # A copy of a database does not have its rights: the one that was migrated is asked.
            cursor.execute("SELECT has_database_privilege('template_of_tests', 'TEMPORARY')")
            assert cursor.fetchone() == (False,)
        connection.close()


def test_a_definers_function_looks_in_public_alone(role_url: Callable[[str], str]) -> None:
    connection = psycopg2.connect(role_url("worker"))
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE runs (name text, game text)")
        cursor.execute("INSERT INTO pg_temp.runs VALUES ('fake', 'tic_tac_toe')")
        cursor.execute("SET search_path = pg_temp, public")
        with pytest.raises(errors.ForeignKeyViolation, match="there is no run fake"):
            cursor.execute("SELECT public.submit_games('fake', 'w', '[]')")
    connection.close()


def test_the_console_is_read_only_and_bounded(role_url: Callable[[str], str]) -> None:
    connection = psycopg2.connect(role_url("console"))
    with connection.cursor() as cursor:
        for setting, expected in {
            "default_transaction_read_only": "on",
            "statement_timeout": "30s",
            "jit": "off",
        }.items():
            cursor.execute(f"SHOW {setting}")
            assert cursor.fetchone() == (expected,)
    connection.close()


def test_every_service_can_do_its_work_in_its_own_role(
    database: Database, role_url: Callable[[str], str]
) -> None:
    run = run_from_values({"name": "test", "game": {"name": "tic_tac_toe"}})
    with Database(role_url("worker")) as worker:
        worker.wait_ready(5)
        worker.require_run(run)
        worker.save_unfinished("test", "w", [(random_record(9, plies=2), 0)], 0)
        assert len(worker.adopt_unfinished("test", "w", 1, 60)) == 1
        assert worker.submit_games("test", "w", [Submission(random_record(1))]) == ["stored"]
        assert worker.promotion_head("test") is None
        assert worker.last_v_resign("test") is None
        assert worker.positions_ahead("test", 1.0, 10.0).positions > 0
        with pytest.raises(ConfigError, match="permission denied for table games"):
            worker.count_games("test")
    with TrainerDatabase(role_url("trainer")) as trainer:
        trainer.wait_ready(5)
        epoch = trainer.acquire_fence("test", "trainer")
        assert len(trainer.read_games("test", 0, 10).games) == 1
        for version in (1, 2):
            trainer.insert_model("test", version, f"{version:064x}", 0, {}, "m", epoch)
        values = {"policy_loss": 1.0, "value_loss": 0.5}
        for _ in range(2):
            trainer.insert_train_metrics("test", 0, "train", values, epoch)
            trainer.record_progress("test", 5.0, 0, epoch)
        trainer.reject_game("test", random_record(1).game_uid, "a test")
        asked = {"false_positive_share": 0.05, "min_games": 1, "window_games": 10, "highest": -0.1}
        assert trainer.compute_v_resign("test", **asked).threshold is None
    with EvaluatorDatabase(role_url("evaluator")) as evaluator:
        epoch = evaluator.acquire_fence("test", "evaluator")
        evaluator.promote("test", 1, None, "e", 0, epoch=epoch)
        asked = {"games": 2, "num_simulations": 1, "seed": 1, "epoch": epoch}
        match = evaluator.open_match("test", "gate", "2", "1", **asked, rule=GateRule(0.5))
        games = [MatchGame(0, 0, random_record(2))]
        evaluator.record_match_games("test", "e", match.match_id, games, epoch=epoch)
        evaluator.insert_exam("test", 1, 10, 100, 3, kind="random")
        for elo in (10.0, 20.0):
            evaluator.upsert_ratings("test", [("1", 0.0, 0.0), ("random", elo, 5.0)])
        evaluator.promote("test", 2, match.match_id, "e", 1, epoch=epoch)
        with pytest.raises(StaleEpochError):
            evaluator.promote("test", 1, None, "e", 1, epoch=epoch)
    with Database(role_url("console")) as console:
        assert console.summary("test").best_model == 2
