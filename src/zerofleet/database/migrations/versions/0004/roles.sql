-- What a connection of ours sets for itself, for connections that cannot: a pooler such as pgbouncer
-- passes no options on. The timeouts are wider than ours. Where an administrator has set something,
-- all of it is theirs. The trainer and the evaluator of a run are few, people and dashboards too;
-- of workers there may be any number, so their bound is the pooler's.
DO $$
DECLARE
    limits record;
BEGIN
    FOR limits IN SELECT * FROM (VALUES
        ('zerofleet_worker', NULL),
        ('zerofleet_trainer', 20),
        ('zerofleet_evaluator', 50),
        ('zerofleet_console', 20)
    ) AS t (role_name, connections)
    LOOP
        BEGIN
            IF EXISTS (
                SELECT FROM pg_roles WHERE rolname = limits.role_name AND rolconfig IS NULL
            ) THEN
                EXECUTE format('ALTER ROLE %I SET statement_timeout = ''60s''', limits.role_name);
                EXECUTE format('ALTER ROLE %I SET idle_in_transaction_session_timeout = ''60s''',
                    limits.role_name);
                EXECUTE format('ALTER ROLE %I SET jit = off', limits.role_name);
                EXECUTE format('ALTER ROLE %I SET timezone = ''UTC''', limits.role_name);
                -- The window counts on rows staying in order.
                EXECUTE format('ALTER ROLE %I SET max_parallel_workers_per_gather = 0',
                    limits.role_name);
            END IF;
            IF limits.connections IS NOT NULL AND EXISTS (
                SELECT FROM pg_roles WHERE rolname = limits.role_name AND rolconnlimit = -1
            ) THEN
                EXECUTE format('ALTER ROLE %I CONNECTION LIMIT %s',
                    limits.role_name, limits.connections);
            END IF;
        EXCEPTION
            WHEN insufficient_privilege THEN
                RAISE NOTICE '% was made by somebody else: its limits are theirs to set',
                    limits.role_name;
            WHEN internal_error THEN NULL;  -- a migration elsewhere sets the same at this moment
        END;
    END LOOP;
END
$$;

-- Nobody's work needs a temporary table, and one can fill the disk.
DO $$
BEGIN
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'this database is somebody else''s: temporary tables are theirs to forbid';
END
$$;

-- What was granted and no service of 0001 to 0003 ever read.
REVOKE SELECT ON matches, match_games, fences FROM zerofleet_trainer;
REVOKE SELECT ON positions, train_metrics, train_events FROM zerofleet_evaluator;


CREATE OR REPLACE FUNCTION acquire_fence(in_run text, in_role text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
DECLARE
    acquired bigint;
BEGIN
    IF session_user IN ('zerofleet_trainer', 'zerofleet_evaluator')
        AND session_user <> 'zerofleet_' || in_role THEN
        RAISE EXCEPTION '% cannot take over from the % of a run', session_user, in_role
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO fences (run, role, epoch) VALUES (in_run, in_role, 1)
    ON CONFLICT (run, role) DO UPDATE SET epoch = fences.epoch + 1, acquired_at = now()
    RETURNING epoch INTO acquired;
    RETURN acquired;
END
$$;
