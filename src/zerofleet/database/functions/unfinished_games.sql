CREATE FUNCTION save_unfinished(
    in_run text, in_worker text, in_records json, in_lease_seconds double precision
)
RETURNS TABLE (game_uid uuid, saved boolean)
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    WITH delivered AS MATERIALIZED (
        SELECT * FROM ROWS FROM (json_to_recordset(in_records) AS (
            game_uid uuid, epoch integer, ply smallint, record json
        )) WITH ORDINALITY
    ), written AS (
        INSERT INTO unfinished_games (game_uid, run, epoch, ply, record, worker, lease_until)
        SELECT
            d.game_uid, in_run, d.epoch, d.ply, d.record, in_worker,
            now() + make_interval(secs => in_lease_seconds)
        FROM delivered AS d
        WHERE NOT EXISTS (SELECT FROM games AS g WHERE g.game_uid = d.game_uid)
        -- Every function locks unfinished games in the order of their uids: no deadlocks.
        ORDER BY d.game_uid
        ON CONFLICT (game_uid) DO UPDATE SET
            ply = excluded.ply, record = excluded.record, worker = excluded.worker,
            lease_until = excluded.lease_until, saved_at = now()
            WHERE unfinished_games.epoch = excluded.epoch AND unfinished_games.run = excluded.run
        RETURNING game_uid
    )
    SELECT d.game_uid, w.game_uid IS NOT NULL
    FROM delivered AS d LEFT JOIN written AS w ON w.game_uid = d.game_uid
    ORDER BY d.ordinality;
END;
COMMENT ON FUNCTION save_unfinished IS
    'Save games in play under a lease. False: another worker has adopted the game, or it is over.';


CREATE FUNCTION adopt_unfinished(
    in_run text, in_worker text, in_limit integer, in_lease_seconds double precision
)
RETURNS TABLE (record json, epoch integer)
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    -- A save that ran beside the game's submission may have left a row of a finished game.
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
        ORDER BY o.lease_until LIMIT in_limit FOR UPDATE SKIP LOCKED
    ) AS orphan
    WHERE u.game_uid = orphan.game_uid
    RETURNING u.record, u.epoch;
END;
COMMENT ON FUNCTION adopt_unfinished IS
    'Take over games whose lease has run out; their epoch grows, so the worker before is refused.';


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
