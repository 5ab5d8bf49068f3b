CREATE FUNCTION first_game_uid(in_at timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT
RETURN (
    lpad(to_hex((extract(epoch FROM in_at) * 1000)::bigint), 12, '0') || repeat('0', 20)
)::uuid;
COMMENT ON FUNCTION first_game_uid IS
    'The least uid of a game that began at this time: uids are UUIDv7, whose first 48 bits are '
    'milliseconds since 1970, by this server''s clock as far as its worker knew that.';


CREATE FUNCTION game_began(in_game_uid uuid) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT
RETURN to_timestamp(
    ('x0000' || left(replace(in_game_uid::text, '-', ''), 12))::bit(64)::bigint / 1000.0
);
COMMENT ON FUNCTION game_began IS
    'When a game began, from its uid: the way back of first_game_uid.';


CREATE FUNCTION has_partition(in_at timestamptz) RETURNS boolean
LANGUAGE sql STABLE SET search_path = public, pg_temp
BEGIN ATOMIC
    SELECT EXISTS (
        SELECT FROM position_partitions AS p WHERE p.since <= in_at AND p.until > in_at
    );
END;
COMMENT ON FUNCTION has_partition IS
    'Whether the searches of games that begin at this time have a partition of their own.';


CREATE FUNCTION partitions_due() RETURNS boolean
LANGUAGE sql STABLE SET search_path = public, pg_temp
BEGIN ATOMIC
    SELECT NOT (has_partition(now()) AND has_partition(now() + interval '1 hour'))
        AND NOT EXISTS (SELECT FROM partition_tries WHERE at > now() - interval '1 minute');
END;
COMMENT ON FUNCTION partitions_due IS
    'Whether a submission makes partitions: one is missing for the next hour, and no session has '
    'tried within the minute. A try may fail for long, and takes locks.';


CREATE FUNCTION searches_per_day() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    -- Bytes for each ply, from the newest partitions, times the plies of the last hour of play.
    WITH newest AS MATERIALIZED (
        SELECT p.since, pg_total_relation_size(to_regclass(p.partition::text)) AS bytes
        FROM position_partitions AS p
        WHERE p.since <= now() AND pg_relation_size(to_regclass(p.partition::text)) > 0
        ORDER BY p.since DESC LIMIT 3
    ), stored AS (
        SELECT sum(g.length) AS plies FROM games AS g
        WHERE g.game_uid >= (SELECT first_game_uid(min(n.since)) FROM newest AS n)
    ), last_stored AS MATERIALIZED (
        SELECT max(g.at) AS at FROM runs AS r CROSS JOIN LATERAL (
            SELECT max(h.ingested_at) AS at FROM games AS h
            WHERE h.run = r.name AND h.kind <> 'given'
        ) AS g
    ), last_hour AS (
        SELECT
            sum(g.plies) AS plies,
            greatest(60, extract(epoch FROM (SELECT l.at FROM last_stored AS l) - min(g.began)))
                AS seconds
        FROM runs AS r CROSS JOIN LATERAL (
            SELECT
                sum(h.length) AS plies,
                greatest(
                    min(h.began_at), (SELECT l.at FROM last_stored AS l) - interval '1 hour'
                ) AS began
            FROM games AS h
            WHERE h.run = r.name AND h.kind <> 'given'
                AND h.ingested_at > (SELECT l.at FROM last_stored AS l) - interval '1 hour'
        ) AS g
    )
    SELECT ((SELECT sum(n.bytes) FROM newest AS n) / s.plies * h.plies / h.seconds * 86400)::bigint
    FROM stored AS s CROSS JOIN last_hour AS h WHERE s.plies > 0;
END;
COMMENT ON FUNCTION searches_per_day IS
    'Bytes that a day of searches adds at the rate of the last hour of play, of all runs of the '
    'database; null before the first game.';


CREATE FUNCTION partition_size() RETURNS interval
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
AS $$
DECLARE
    widest interval;
    limit_bytes double precision;
    faults text[];
    fault text;
    held_bytes CONSTANT numeric := (
        SELECT coalesce(sum(pg_total_relation_size(to_regclass(p.partition::text))), 0)
        FROM position_partitions AS p
    );
    per_day bigint;
BEGIN
    -- A row of before register_run checked it, or of another version, may hold anything.
    WITH checked AS MATERIALIZED (
        SELECT r.name, r.created_at, r.config, run_fault(r.name, r.game, r.config) AS fault
        FROM runs AS r
    )
    SELECT
        make_interval(hours => coalesce(
            min(retention_number(c.config, 'partition_hours')) FILTER (WHERE c.fault IS NULL), 24
        )::integer),
        1e9 * min(retention_number(c.config, 'max_disk_gb')) FILTER (
            WHERE c.fault IS NULL AND retention_number(c.config, 'max_disk_gb') > 0
                AND c.config #> '{retention,forget}' IS DISTINCT FROM 'false'
        ),
        (array_agg(
            format('the run %s is passed over when partitions are made: %s',
                to_json(left(c.name, 48)), c.fault)
            ORDER BY c.created_at
        ) FILTER (WHERE c.fault IS NOT NULL))[:3]
    INTO widest, limit_bytes, faults FROM checked AS c;
    FOREACH fault IN ARRAY coalesce(faults, '{}') LOOP
        RAISE WARNING '%', fault;
    END LOOP;
    IF limit_bytes IS NULL THEN
        RETURN widest;
    END IF;
    per_day := searches_per_day();
    IF per_day IS NULL THEN
        RETURN least(widest, interval '10 minutes');
    END IF;
    -- Each of these divides a day, so partitions of different sizes share their boundaries. Training
    -- may need far more than the limit: then there would be too many partitions for the planner.
    RETURN least(widest, coalesce((
        SELECT max(s.size) FROM unnest(
            '{1 minute, 2 minutes, 5 minutes, 10 minutes, 20 minutes, 30 minutes, 1 hour, 2 hours, '
            '4 hours, 8 hours, 1 day}'::interval[]
        ) AS s (size)
        WHERE extract(epoch FROM s.size) / 86400 * per_day <= greatest(limit_bytes, held_bytes) / 32
    ), interval '1 minute'));
END
$$;
COMMENT ON FUNCTION partition_size IS
    'How long a stretch of time a new partition covers: the fewest of [retention] partition_hours of '
    'the runs here, or less where searches of that time are more than [retention] max_disk_gb / 32.';


CREATE FUNCTION make_partitions(in_hours integer, in_until timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '200ms'
AS $$
DECLARE
    size CONSTANT interval := coalesce(make_interval(hours => in_hours), partition_size());
    -- At least half an hour beyond a submission's own look-ahead, which makes missing partitions.
    made_until CONSTANT timestamptz := coalesce(
        in_until,
        now() + greatest(interval '90 minutes', 2 * size, least(24 * size, interval '1 day'))
    );
    origin CONSTANT timestamptz := '2000-01-01 00:00:00+00';
    most_moved CONSTANT integer := 100000;
    next_at timestamptz := now();
    since timestamptz;
    until timestamptz;
    partition name;
    wide name;
    is_used boolean;
    made integer := 0;
BEGIN
    IF size <= interval '0' THEN
        RAISE EXCEPTION 'a partition of % hours cannot be made', in_hours
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- One caller at a time; the others continue without it. An advisory lock could be held by any
    -- role, but a role that may only read a table cannot block this lock on it.
    BEGIN
        LOCK TABLE partition_tries IN EXCLUSIVE MODE NOWAIT;
    EXCEPTION
        WHEN lock_not_available THEN RETURN 0;
    END;
    INSERT INTO partition_tries VALUES (now()) ON CONFLICT ((true)) DO UPDATE SET at = now();
    -- Empty partitions that are wider than new ones should be are removed.
    FOR wide IN
        SELECT p.partition FROM position_partitions AS p
        WHERE in_hours IS NULL AND p.until > now() AND p.until - p.since > size
            AND to_regclass(p.partition::text) IS NOT NULL
        ORDER BY p.since
    LOOP
        BEGIN
            LOCK TABLE ONLY positions IN ACCESS EXCLUSIVE MODE;
            LOCK TABLE positions_default IN ACCESS EXCLUSIVE MODE NOWAIT;
            EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE NOWAIT', wide);
            EXECUTE format('SELECT EXISTS (SELECT FROM %I)', wide) INTO is_used;
            IF NOT is_used THEN
                EXECUTE format('DROP TABLE %I', wide);
                DELETE FROM position_partitions AS p WHERE p.partition = wide;
            END IF;
        EXCEPTION
            -- A session reads it, or a person's view depends on it: it stays for now.
            WHEN lock_not_available OR dependent_objects_still_exist THEN EXIT;
        END;
    END LOOP;
    WHILE next_at < made_until LOOP
        SELECT p.until INTO until FROM position_partitions AS p
        WHERE p.since <= next_at AND p.until > next_at;
        IF FOUND THEN
            next_at := until;
            CONTINUE;
        END IF;
        since := greatest(
            date_bin(size, next_at, origin),
            (SELECT max(p.until) FROM position_partitions AS p WHERE p.until <= next_at)
        );
        until := least(
            date_bin(size, next_at, origin) + size,
            (SELECT min(p.since) FROM position_partitions AS p WHERE p.since > next_at)
        );
        next_at := until;
        partition := 'positions_' || to_char(since AT TIME ZONE 'UTC', CASE
            WHEN since = date_trunc('hour', since) THEN 'YYYYMMDD_HH24' ELSE 'YYYYMMDD_HH24MI'
        END);
        -- Positions of games whose uids are ahead of time. Moving too many would take too long: they
        -- stay in positions_default, and this partition is made when they are few or gone.
        CONTINUE WHEN (
            SELECT count(*) FROM (
                SELECT FROM positions_default AS p
                WHERE p.game_uid >= first_game_uid(since) AND p.game_uid < first_game_uid(until)
                LIMIT most_moved + 1
            ) AS found
        ) > most_moved;
        -- ATTACH does not block submissions: it locks positions only against other such changes, and
        -- positions_default, which it searches, against everything. positions_default is nearly
        -- empty, and its rows of the new range move out first. The trainer's window cannot look for
        -- these rows in between, because it locks that table too.
        BEGIN
            LOCK TABLE positions_default IN ACCESS EXCLUSIVE MODE;
            EXECUTE format('CREATE TABLE %I (LIKE positions INCLUDING ALL)', partition);
            EXECUTE format(
                'COMMENT ON TABLE %I IS %L', partition,
                format('Positions of games that began from %s until %s.', since, until)
            );
            EXECUTE format(
                'WITH moved AS (DELETE FROM positions_default WHERE game_uid >= %L '
                'AND game_uid < %L RETURNING *) INSERT INTO %I SELECT * FROM moved',
                first_game_uid(since), first_game_uid(until), partition
            );
            EXECUTE format(
                'ALTER TABLE positions ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                partition, first_game_uid(since), first_game_uid(until)
            );
            INSERT INTO position_partitions VALUES (partition, since, until);
            made := made + 1;
        EXCEPTION
            WHEN lock_not_available THEN RETURN made;  -- a session reads it; a later call tries again
            WHEN duplicate_table THEN
                RAISE WARNING 'a table % is in the way: rename it, then its partition is made',
                    partition;
        END;
    END LOOP;
    RETURN made;
END
$$;
COMMENT ON FUNCTION make_partitions IS
    'Make the partitions of positions that are missing from now until a time (null: some time ahead), '
    'each of this many hours (null: partition_size()). Returns the number made. Where one cannot be '
    'made now, positions_default takes its rows.';


CREATE FUNCTION positions_needed(in_at_limit boolean DEFAULT false) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    -- New rows are kept whatever the runs need, because they may not have read them yet. A run that
    -- has games but, after a day, still no trainer is ignored: otherwise it would keep everything of
    -- the others forever. A run with all its given games waits on purpose, so it counts until the
    -- disk limit is reached. A copy or an import that is not finished counts for a day.
    SELECT least(
        coalesce(min(coalesce(
            greatest(CASE WHEN in_at_limit THEN n.limit_since END, n.since), '-infinity'
        )), '-infinity'),
        now() - CASE WHEN in_at_limit THEN interval '10 minutes' ELSE interval '1 hour' END
    )
    FROM runs AS r LEFT JOIN position_needs AS n ON n.run = r.name
    WHERE n.run IS NOT NULL OR (
        EXISTS (SELECT FROM games AS g WHERE g.run = r.name) AND (
            r.created_at > now() - interval '1 day'
            OR EXISTS (SELECT FROM fences AS f WHERE f.run = r.name AND f.role = 'trainer')
            OR (NOT in_at_limit AND EXISTS (
                SELECT FROM origins AS o WHERE o.run = r.name
                    AND (o.finished_at IS NOT NULL OR o.began_at > now() - interval '1 day')
            ))
        )
    );
END;
COMMENT ON FUNCTION positions_needed IS
    'Searches of games that began and were stored before this are needed by no run of the database. '
    'in_at_limit: the disk limit is reached, so runs that have one need only what they train on, and '
    'given games do not wait for a first trainer.';


CREATE FUNCTION drop_partition(in_at_limit boolean DEFAULT false)
RETURNS TABLE (partition name, outcome text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '400ms'
AS $$
#variable_conflict use_column
DECLARE
    oldest name;
BEGIN
    SELECT p.partition INTO oldest FROM position_partitions AS p
    WHERE p.until <= positions_needed(in_at_limit) ORDER BY p.since LIMIT 1;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- Dropping locks all of positions for a moment, once running submissions are done. Readers and
    -- writers that come in the meantime wait behind it, so it gives up soon if another session keeps
    -- reading, and is tried again later. It waits only for the lock on positions: readers of a
    -- partition through positions are done by then, and nobody should wait longer behind a reader
    -- of the partition itself. The files are deleted after the commit, when no lock is held.
    BEGIN
        LOCK TABLE ONLY positions IN ACCESS EXCLUSIVE MODE;
        LOCK TABLE positions_default IN ACCESS EXCLUSIVE MODE NOWAIT;
        IF to_regclass(oldest::text) IS NOT NULL THEN
            EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE NOWAIT', oldest);
        END IF;
        EXECUTE format('DROP TABLE IF EXISTS %I', oldest);
        DELETE FROM position_partitions WHERE partition = oldest;
        RETURN QUERY SELECT oldest, 'dropped';
    EXCEPTION
        WHEN lock_not_available THEN
            RETURN QUERY SELECT oldest, 'another session is reading positions';
        WHEN dependent_objects_still_exist THEN
            RETURN QUERY SELECT oldest, SQLERRM;
    END;
END
$$;
COMMENT ON FUNCTION drop_partition IS
    'Drop the oldest partition of positions if no run needs anything of it; returns the outcome, or '
    'nothing where there is none to drop. in_at_limit: as of positions_needed.';


CREATE FUNCTION delete_old_positions(in_games integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
DECLARE
    most_rows CONSTANT integer := 100000;
    needed CONSTANT timestamptz := positions_needed();
    deleted bigint;
BEGIN
    IF needed = '-infinity' THEN
        RETURN 0;
    END IF;
    -- In the order in which games began, up to a limit of rows. If clocks are ahead, rows that are
    -- too new to delete come last, and reading all of them each time would take longer and longer.
    WITH first AS MATERIALIZED (
        SELECT p.game_uid FROM positions_default AS p ORDER BY p.game_uid, p.ply LIMIT most_rows
    ), old AS MATERIALIZED (
        SELECT f.game_uid FROM (SELECT DISTINCT game_uid FROM first) AS f
        JOIN games AS g USING (game_uid)
        WHERE g.ingested_at < needed ORDER BY f.game_uid LIMIT in_games
    ), gone AS (
        -- Whole games, because a reader assumes that a game with its first ply has all of them.
        DELETE FROM positions_default AS p USING old WHERE p.game_uid = old.game_uid
    )
    SELECT count(*) INTO deleted FROM old;
    RETURN deleted;
END
$$;
COMMENT ON FUNCTION delete_old_positions IS
    'Delete from positions_default the searches of some games that no run needs, of those that began '
    'first; answers how many games.';


CREATE FUNCTION model_is_held(in_run text, in_version integer) RETURNS boolean
LANGUAGE sql STABLE SET search_path = public, pg_temp
BEGIN ATOMIC
    SELECT EXISTS (
        SELECT FROM promotions AS p WHERE p.run = in_run AND p.version = in_version
    ) OR EXISTS (
        SELECT FROM matches AS m
        WHERE m.run = in_run AND in_version IN (m.player_version, m.opponent_version)
            AND CASE m.kind
                WHEN 'gate' THEN m.verdict IS NULL
                WHEN 'trial' THEN m.left_out IS NULL AND m.games > (
                    SELECT count(*) FROM match_games AS g WHERE g.match_id = m.match_id
                )
                ELSE false  -- the rating pool contains only promoted models
            END
    );
END;
COMMENT ON FUNCTION model_is_held IS
    'Whether a model''s files must stay, old as it may be: it was promoted, or plays a match.';


CREATE FUNCTION give_up_models(
    in_run text, in_newest integer, in_every integer, in_grace interval, in_epoch bigint
) RETURNS integer[]
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    -- A match may have begun just when its model was given up, unseen by keep_files.
    UPDATE models AS m SET removed_at = NULL, epoch = in_epoch
    WHERE m.run = in_run AND m.removed_at IS NOT NULL AND model_is_held(m.run, m.version);
    WITH given_up AS (
        UPDATE models AS m SET removed_at = now() + in_grace, epoch = in_epoch
        WHERE m.run = in_run AND m.removed_at IS NULL
            AND m.version NOT IN (
                SELECT n.version FROM models AS n
                WHERE n.run = in_run ORDER BY n.version DESC LIMIT in_newest
            )
            AND coalesce(m.version % nullif(in_every, 0) <> 0, true)
            AND NOT model_is_held(m.run, m.version)
        RETURNING m.version
    )
    SELECT coalesce(array_agg(g.version ORDER BY g.version), '{}') FROM given_up AS g;
END;
COMMENT ON FUNCTION give_up_models IS
    'Give up the files of all models but the promoted ones, the newest, every so many-th and those in '
    'a match; answers their versions. The files go when the grace is over, unless a match or a '
    'promotion has begun to need them by then.';


CREATE FUNCTION removable_files(in_run text)
RETURNS TABLE (version integer, sha256s text[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    SELECT m.version, array(
        SELECT f.sha256 FROM (
            SELECT m.sha256
            UNION
            SELECT v.sha256 FROM model_variants AS v
            WHERE v.run = m.run AND v.version = m.version AND v.sha256 IS NOT NULL
        ) AS f
        -- Runs may share a folder, and files are named after their content.
        WHERE NOT EXISTS (
            SELECT FROM models AS k LEFT JOIN model_variants AS w USING (run, version)
            WHERE f.sha256 IN (k.sha256, w.sha256)
                AND (k.removed_at IS NULL OR model_is_held(k.run, k.version))
        )
    )
    FROM models AS m
    WHERE m.run = in_run AND m.removed_at <= now()
        AND NOT model_is_held(m.run, m.version)
    ORDER BY m.version;
END;
COMMENT ON FUNCTION removable_files IS
    'Models that were given up and whose grace is over, with the files that belong to no other.';
