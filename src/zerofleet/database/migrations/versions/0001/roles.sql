-- Roles belong to the whole cluster: another database, or an administrator, may have made them.
-- They may log in, but have no password yet:  ALTER ROLE zerofleet_worker PASSWORD '...'
DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY
        ARRAY['zerofleet_worker', 'zerofleet_trainer', 'zerofleet_evaluator', 'zerofleet_console']
    LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = role_name);
        BEGIN
            EXECUTE format('CREATE ROLE %I LOGIN', role_name);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;  -- a migration elsewhere was faster
        END;
    END LOOP;
END
$$;

-- The console's limits. They guard against accidents; what it may do is decided by its grants.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'zerofleet_console' AND rolconfig IS NOT NULL) THEN
        ALTER ROLE zerofleet_console SET default_transaction_read_only = on;
        ALTER ROLE zerofleet_console SET statement_timeout = '30s';
        ALTER ROLE zerofleet_console SET idle_in_transaction_session_timeout = '60s';
        ALTER ROLE zerofleet_console SET jit = off;
    END IF;
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'zerofleet_console was made by somebody else: its limits are theirs to set';
    WHEN internal_error THEN NULL;  -- a migration elsewhere sets the same at this moment
END
$$;

REVOKE ALL ON SCHEMA public FROM PUBLIC;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA public FROM PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
GRANT USAGE ON SCHEMA public
    TO zerofleet_worker, zerofleet_trainer, zerofleet_evaluator, zerofleet_console;

GRANT SELECT ON ALL TABLES IN SCHEMA public TO zerofleet_console;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO zerofleet_console;

-- What anybody needs in order to start: the version of the schema, the run, its models.
GRANT SELECT ON alembic_version, runs, models, promotions
    TO zerofleet_worker, zerofleet_trainer, zerofleet_evaluator;
GRANT EXECUTE ON FUNCTION register_run
    TO zerofleet_worker, zerofleet_trainer, zerofleet_evaluator;

GRANT EXECUTE ON FUNCTION
    submit_games, save_unfinished, adopt_unfinished, extend_leases, release_unfinished
    TO zerofleet_worker;

GRANT SELECT ON games, positions, rejected_games, train_metrics, fences, matches, match_games
    TO zerofleet_trainer;
GRANT INSERT ON models, rejected_games, train_metrics TO zerofleet_trainer;
GRANT UPDATE ON train_metrics TO zerofleet_trainer;
GRANT EXECUTE ON FUNCTION acquire_fence TO zerofleet_trainer, zerofleet_evaluator;

GRANT SELECT ON games, positions, matches, match_games, exams, ratings, fences, train_metrics
    TO zerofleet_evaluator;
GRANT INSERT ON matches, match_games, promotions, exams, ratings TO zerofleet_evaluator;
GRANT UPDATE (verdict, candidate_score, decided_at, epoch) ON matches TO zerofleet_evaluator;
GRANT UPDATE (elo, elo_error, games, at) ON ratings TO zerofleet_evaluator;
GRANT EXECUTE ON FUNCTION submit_games TO zerofleet_evaluator;
