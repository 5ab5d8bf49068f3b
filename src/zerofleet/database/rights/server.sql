-- Limits that only a superuser can set; for other roles this file does nothing. `zerofleet migrate`
-- applies it (as a superuser in Compose), and `zerofleet up` applies it to its own Postgres at each start.
-- On another server an administrator may apply it by hand with psql. Safe to repeat.
--
-- All sessions share one lock table, one write-ahead log, one disk and one set of CPUs. By default every
-- role may call these functions, in read-only transactions too. PUBLIC loses them in this database; the
-- owner keeps them, because migrations, dumps and restores use some. docs/how-to/security.md and
-- tests/integration/test_database_burdens.py list what PUBLIC keeps, and why.
DO $$
DECLARE
    owner CONSTANT text := coalesce(
        nullif(current_setting('zerofleet.owner', true), ''),
        (SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database())
    );
    taken regprocedure;
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        IF EXISTS (
            SELECT FROM pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner))) AS a
            WHERE pg_proc.oid = 'pg_advisory_lock(bigint)'::regprocedure AND a.grantee = 0
        ) THEN
            RAISE WARNING 'every role may fill the lock table of this server: let a superuser apply '
                '"What a superuser must forbid" of docs/how-to/security.md to this database';
        END IF;
        RETURN;
    END IF;
    FOR taken IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = 'pg_catalog'::regnamespace AND (
            -- Write large objects.
            proname LIKE 'lo\_%' OR proname IN ('loread', 'lowrite')
            -- Fill the lock table, which the whole server shares.
            OR proname LIKE 'pg\_advisory\_%' OR proname LIKE 'pg\_try\_advisory\_%'
            -- Write to the write-ahead log, to pg_snapshots and to the queue of notifications.
            OR proname IN ('pg_logical_emit_message', 'pg_export_snapshot', 'pg_notify')
            -- End other sessions of the same role.
            OR proname IN ('pg_terminate_backend', 'pg_cancel_backend')
            -- Stop the lock table while they copy it.
            OR proname IN (
                'pg_lock_status', 'pg_blocking_pids', 'pg_safe_snapshot_blocking_pids',
                'pg_isolation_test_session_is_blocked'
            )
            -- Run a query that is a value, whose cost no plan shows, or write whole tables into one value.
            OR proname ~ '^(query|cursor|table|schema|database)_to_xml'
            OR proname = 'ts_stat'
            OR oid = 'ts_rewrite(tsquery, text)'::regprocedure
        )
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', taken);
        -- A restore of the owner's dump repeats the REVOKE, for which the owner needs its own right.
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', taken, owner);
    END LOOP;
    GRANT EXECUTE ON FUNCTION pg_lock_status(), pg_blocking_pids(integer) TO pg_monitor;
END
$$;

-- Settings that a role cannot change for itself. The limit of temporary files is for one session.
DO $$
DECLARE
    ours name;
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RETURN;
    END IF;
    FOR ours IN SELECT rolname FROM pg_roles WHERE rolname IN (
        'zerofleet_worker', 'zerofleet_trainer', 'zerofleet_evaluator', 'zerofleet_console',
        'zerofleet_visitor'
    ) LOOP
        IF NOT EXISTS (
            SELECT FROM pg_db_role_setting AS s JOIN pg_roles AS r ON r.oid = s.setrole
            WHERE r.rolname = ours AND s.setdatabase = 0
                AND s.setconfig::text LIKE '%temp\_file\_limit=%'
        ) THEN
            EXECUTE format('ALTER ROLE %I SET temp_file_limit = ''1GB''', ours);
        END IF;
    END LOOP;
    -- Visitors share a role, and a role sees the statements of its own sessions.
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'zerofleet_visitor') THEN
        ALTER ROLE zerofleet_visitor SET track_activities = off;
    END IF;
EXCEPTION
    WHEN internal_error THEN NULL;  -- a migration elsewhere sets the same at this moment
END
$$;

-- In other databases of this server every role may still call the functions above. If all roles are
-- ours, none of them needs another database. A server with other roles is left to its administrator.
DO $$
DECLARE
    another name;
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RETURN;
    END IF;
    IF EXISTS (
        SELECT FROM pg_roles WHERE rolcanlogin AND NOT rolsuper AND rolname NOT LIKE 'zerofleet%'
    ) THEN
        RAISE NOTICE 'this server has roles of others: see docs/how-to/security.md for what its administrator must forbid';
        RETURN;
    END IF;
    FOR another IN SELECT datname FROM pg_database WHERE datname IN ('postgres', 'template1') LOOP
        EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', another);
        EXECUTE format(
            'GRANT CONNECT ON DATABASE %I TO %I', another, coalesce(
                nullif(current_setting('zerofleet.owner', true), ''), current_user
            )
        );
    END LOOP;
EXCEPTION
    WHEN internal_error THEN NULL;  -- a migration elsewhere does the same at this moment
END
$$;
