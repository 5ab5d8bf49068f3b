CREATE FUNCTION adopt_unfinished(
    in_run text, in_worker text, in_limit integer, in_lease_seconds double precision
)
RETURNS TABLE (game_uid uuid, record json, epoch integer)
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    -- A save that ran at the same time as the game's submission may have left a row of a finished
    -- game. A row that is locked just now stays until the next call, and is not adopted.
    DELETE FROM unfinished_games WHERE game_uid IN (
        SELECT u.game_uid FROM unfinished_games AS u
        WHERE u.run = in_run AND u.lease_until <= now()
            AND EXISTS (SELECT FROM games AS g WHERE g.game_uid = u.game_uid)
        ORDER BY u.game_uid FOR UPDATE SKIP LOCKED
    );
    -- Whoever calls this holds all records at once.
    WITH orphans AS MATERIALIZED (
        SELECT o.game_uid, o.lease_until, octet_length(o.record::text) AS bytes
        FROM unfinished_games AS o
        WHERE o.run = in_run AND o.lease_until <= now()
            AND NOT EXISTS (SELECT FROM games AS g WHERE g.game_uid = o.game_uid)
        ORDER BY o.lease_until LIMIT least(in_limit, 8) FOR UPDATE SKIP LOCKED
    ), counted AS (
        SELECT
            game_uid, bytes,
            sum(bytes) OVER (ORDER BY lease_until, game_uid) AS bytes_with_earlier
        FROM orphans
    )
    UPDATE unfinished_games AS u SET
        epoch = u.epoch + 1, worker = left(in_worker, 200),
        lease_until = now() + make_interval(secs => least(in_lease_seconds, 86400))
    FROM counted AS c
    WHERE u.game_uid = c.game_uid
        AND (c.bytes_with_earlier <= 64000000 OR c.bytes_with_earlier = c.bytes)
    RETURNING u.game_uid, u.record, u.epoch;
END;
COMMENT ON FUNCTION adopt_unfinished IS
    'Take over games whose lease has run out, at most 8 and 64 MB at once; their epoch grows, so the '
    'worker before is refused.';


CREATE FUNCTION reject_unfinished(
    in_run text, in_worker text, in_game_uid uuid, in_epoch integer, in_reason text
)
RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    WITH gone AS (
        DELETE FROM unfinished_games
        WHERE game_uid = in_game_uid AND run = in_run AND epoch = in_epoch
            AND worker = left(in_worker, 200)
        RETURNING game_uid, record
    ), kept AS (
        INSERT INTO refused_games (game_uid, run, reason, worker, record)
        SELECT game_uid, in_run, in_reason, left(in_worker, 200), record FROM gone
        ON CONFLICT DO NOTHING
    )
    SELECT EXISTS (SELECT FROM gone);
END;
COMMENT ON FUNCTION reject_unfinished IS
    'The worker cannot go on with a game that it adopted: it is kept in refused_games and not '
    'adopted again. False: the game is not this worker''s any more.';


CREATE FUNCTION extend_leases(
    in_run text, in_worker text, in_game_uids uuid[], in_lease_seconds double precision
)
RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    WITH ours AS MATERIALIZED (
        SELECT game_uid FROM unfinished_games
        WHERE run = in_run AND worker = left(in_worker, 200) AND game_uid = ANY (in_game_uids)
        ORDER BY game_uid FOR UPDATE
    ), extended AS (
        UPDATE unfinished_games AS u
        SET lease_until = now() + make_interval(secs => least(in_lease_seconds, 86400))
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
        WHERE run = in_run AND worker = left(in_worker, 200) AND lease_until > now()
        ORDER BY game_uid FOR UPDATE
    ), released AS (
        UPDATE unfinished_games AS u SET lease_until = now()
        FROM ours WHERE u.game_uid = ours.game_uid
        RETURNING 1
    )
    SELECT count(*) FROM released;
END;
COMMENT ON FUNCTION release_unfinished IS 'The worker leaves: its games may be adopted at once.';
