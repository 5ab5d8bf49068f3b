CREATE FUNCTION check_unfinished(
    in_delivery json, in_game text,
    OUT game_uid uuid, OUT epoch integer, OUT ply smallint, OUT record json, OUT fault text
)
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    r game_record;
BEGIN
    game_uid := in_delivery -> 'record' ->> 'game_uid';
    epoch := in_delivery ->> 'epoch';
    r := json_populate_record(NULL::game_record, in_delivery -> 'record');
    -- An adoption counts on from it, so it must be far from the largest integer.
    fault := CASE
        WHEN coalesce(epoch NOT BETWEEN 0 AND 1000000, true) THEN 'epoch is missing, or too large'
        WHEN r.result IS NOT NULL OR r.finished_at IS NOT NULL OR r.reason <> 'rules'
            THEN 'the game is over'
        ELSE record_fault(r, in_game, 1)
    END;
    ply := cardinality(r.action);
    record := in_delivery -> 'record';
EXCEPTION
    WHEN data_exception OR program_limit_exceeded THEN fault := SQLERRM;
END
$$;
COMMENT ON FUNCTION check_unfinished IS
    'One delivery of save_unfinished: what is to be kept of it, or the fault that it has.';


CREATE FUNCTION save_unfinished(
    in_run text, in_worker text, in_records json, in_lease_seconds double precision
)
RETURNS TABLE (game_uid uuid, status text, reason text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    run_game text;
BEGIN
    SELECT game INTO run_game FROM runs WHERE name = in_run;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no run %', in_run USING ERRCODE = 'foreign_key_violation';
    END IF;

    RETURN QUERY
    WITH delivered AS MATERIALIZED (
        SELECT d.ordinality, d.delivery, c.*
        FROM json_array_elements(in_records) WITH ORDINALITY AS d (delivery, ordinality)
        CROSS JOIN LATERAL check_unfinished(d.delivery, run_game) AS c
    ), accepted AS MATERIALIZED (
        SELECT DISTINCT ON (d.game_uid) * FROM delivered AS d
        WHERE d.fault IS NULL
            AND NOT EXISTS (SELECT FROM games AS g WHERE g.game_uid = d.game_uid)
        ORDER BY d.game_uid, d.ordinality DESC
    ), written AS (
        INSERT INTO unfinished_games (game_uid, run, epoch, ply, record, worker, lease_until)
        SELECT
            a.game_uid, in_run, a.epoch, a.ply, a.record, in_worker,
            now() + make_interval(secs => in_lease_seconds)
        FROM accepted AS a
        -- Every function locks unfinished games in the order of their uids: no deadlocks.
        ORDER BY a.game_uid
        ON CONFLICT (game_uid) DO UPDATE SET
            ply = excluded.ply, record = excluded.record, worker = excluded.worker,
            lease_until = excluded.lease_until, saved_at = now()
            WHERE unfinished_games.epoch = excluded.epoch AND unfinished_games.run = excluded.run
        RETURNING game_uid
    ), kept AS (
        INSERT INTO games_conflict (game_uid, run, reason, worker, record)
        SELECT game_uid, in_run, fault, in_worker, delivery FROM delivered WHERE fault IS NOT NULL
        ON CONFLICT DO NOTHING
    )
    SELECT d.game_uid, CASE
        WHEN d.fault IS NOT NULL THEN 'rejected'
        WHEN w.game_uid IS NOT NULL THEN 'saved'
        ELSE 'lost'
    END, d.fault
    FROM delivered AS d LEFT JOIN written AS w ON w.game_uid = d.game_uid
    ORDER BY d.ordinality;
END
$$;
COMMENT ON FUNCTION save_unfinished IS
    'Save games in play under a lease. Answers in the order given: saved, lost (another worker has '
    'adopted the game, or it is over), rejected (the record contradicts itself; it is kept in '
    'games_conflict). Each game is answered for by itself.';


CREATE FUNCTION adopt_unfinished(
    in_run text, in_worker text, in_limit integer, in_lease_seconds double precision
)
RETURNS TABLE (game_uid uuid, record json, epoch integer)
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    -- A save that ran beside the game's submission may have left a row of a finished game. One that
    -- is locked just now stays until the next time, and is not adopted.
    DELETE FROM unfinished_games WHERE game_uid IN (
        SELECT u.game_uid FROM unfinished_games AS u
        WHERE u.run = in_run AND u.lease_until <= now()
            AND EXISTS (SELECT FROM games AS g WHERE g.game_uid = u.game_uid)
        ORDER BY u.game_uid FOR UPDATE SKIP LOCKED
    );
    UPDATE unfinished_games AS u SET
        epoch = u.epoch + 1, worker = in_worker,
        lease_until = now() + make_interval(secs => in_lease_seconds)
    FROM (
        SELECT o.game_uid FROM unfinished_games AS o
        WHERE o.run = in_run AND o.lease_until <= now()
            AND NOT EXISTS (SELECT FROM games AS g WHERE g.game_uid = o.game_uid)
        ORDER BY o.lease_until LIMIT in_limit FOR UPDATE SKIP LOCKED
    ) AS orphan
    WHERE u.game_uid = orphan.game_uid
    RETURNING u.game_uid, u.record, u.epoch;
END;
COMMENT ON FUNCTION adopt_unfinished IS
    'Take over games whose lease has run out; their epoch grows, so the worker before is refused.';


CREATE FUNCTION reject_unfinished(
    in_run text, in_worker text, in_game_uid uuid, in_epoch integer, in_reason text
)
RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    WITH gone AS (
        DELETE FROM unfinished_games
        WHERE game_uid = in_game_uid AND run = in_run AND epoch = in_epoch AND worker = in_worker
        RETURNING game_uid, record
    ), kept AS (
        INSERT INTO games_conflict (game_uid, run, reason, worker, record)
        SELECT game_uid, in_run, in_reason, in_worker, record FROM gone
        ON CONFLICT DO NOTHING
    )
    SELECT EXISTS (SELECT FROM gone);
END;
COMMENT ON FUNCTION reject_unfinished IS
    'The worker cannot go on with a game that it adopted: it is kept in games_conflict and not '
    'adopted again. False: the game is not this worker''s any more.';


CREATE FUNCTION extend_leases(
    in_run text, in_worker text, in_game_uids uuid[], in_lease_seconds double precision
)
RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    WITH ours AS MATERIALIZED (
        SELECT game_uid FROM unfinished_games
        WHERE run = in_run AND worker = in_worker AND game_uid = ANY (in_game_uids)
        ORDER BY game_uid FOR UPDATE
    ), extended AS (
        UPDATE unfinished_games AS u
        SET lease_until = now() + make_interval(secs => in_lease_seconds)
        FROM ours WHERE u.game_uid = ours.game_uid
        RETURNING 1
    )
    SELECT count(*) FROM extended;
END;
COMMENT ON FUNCTION extend_leases IS
    'The worker goes on with these games: they stay its own. Answers how many do.';


CREATE FUNCTION release_unfinished(in_run text, in_worker text) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    WITH ours AS MATERIALIZED (
        SELECT game_uid FROM unfinished_games
        WHERE run = in_run AND worker = in_worker AND lease_until > now()
        ORDER BY game_uid FOR UPDATE
    ), released AS (
        UPDATE unfinished_games AS u SET lease_until = now()
        FROM ours WHERE u.game_uid = ours.game_uid
        RETURNING 1
    )
    SELECT count(*) FROM released;
END;
COMMENT ON FUNCTION release_unfinished IS 'The worker leaves: its games may be adopted at once.';
