-- Roles belong to the whole cluster: another database, or an administrator, may have made them.
-- They may log in, but have no password yet:  ALTER ROLE zerofleet_worker PASSWORD '...'
DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY
        ARRAY[
            'zerofleet_worker', 'zerofleet_trainer', 'zerofleet_evaluator', 'zerofleet_console',
            'zerofleet_visitor'
        ]
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

-- Our own connections make these settings for themselves. Other connections cannot: a pooler such as
-- pgbouncer passes no options on. The timeouts are longer than ours. The settings of the console and
-- of visitors of the page guard against accidents; their grants decide what these roles may do.
-- Where an administrator has set anything for a role, nothing is set here; settings that server.sql
-- makes do not count as such. A run has few trainers, evaluators, people and dashboards. It may have
-- any number of workers, so the pooler limits those.
DO $$
DECLARE
    limits record;
    setting text;
BEGIN
    FOR limits IN SELECT * FROM (VALUES
        ('zerofleet_worker', NULL, false),
        ('zerofleet_trainer', 20, false),
        ('zerofleet_evaluator', 50, false),
        ('zerofleet_console', 20, true),
        ('zerofleet_visitor', 10, true)
    ) AS t (role_name, connections, only_reads)
    LOOP
        BEGIN
            IF NOT EXISTS (
                SELECT FROM pg_roles, unnest(rolconfig) AS given
                WHERE rolname = limits.role_name
                    AND given !~ '^(temp_file_limit|track_activities)='
            ) THEN
                FOREACH setting IN ARRAY CASE
                    WHEN limits.only_reads THEN
                        ARRAY['default_transaction_read_only = on', 'statement_timeout = ''30s''']
                    -- The window counts on rows staying in order.
                    ELSE ARRAY[
                        'statement_timeout = ''60s''', 'timezone = ''UTC''',
                        'max_parallel_workers_per_gather = 0'
                    ]
                END || ARRAY['idle_in_transaction_session_timeout = ''60s''', 'jit = off']
                LOOP
                    EXECUTE format('ALTER ROLE %I SET ', limits.role_name) || setting;
                END LOOP;
            END IF;
            IF limits.connections IS NOT NULL AND EXISTS (
                SELECT FROM pg_roles WHERE rolname = limits.role_name AND rolconnlimit = -1
            ) THEN
                EXECUTE format('ALTER ROLE %I CONNECTION LIMIT %s',
                    limits.role_name, limits.connections);
            END IF;
        EXCEPTION
            WHEN insufficient_privilege THEN
                RAISE NOTICE '% belongs to another role, which must set its limits',
                    limits.role_name;
            WHEN internal_error THEN NULL;  -- a migration elsewhere sets the same at this moment
        END;
    END LOOP;
END
$$;

-- No role needs temporary tables, and one can fill the disk.
DO $$
BEGIN
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'this database belongs to another role, which must forbid temporary tables';
END
$$;

REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public
    TO zerofleet_worker, zerofleet_trainer, zerofleet_evaluator, zerofleet_console, zerofleet_visitor;
-- These rules hold for everything that the owner makes from now on. Only roles to which a function is
-- granted may call it. The console and visitors of the page may read every table and view.
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES
    TO zerofleet_console, zerofleet_visitor;
