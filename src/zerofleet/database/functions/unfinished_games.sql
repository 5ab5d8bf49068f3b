CREATE FUNCTION check_unfinished(
    in_delivery json, in_game text, in_newest_version integer,
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
        -- Everything in it is kept, and a worker that adopts the game reads it whole.
        WHEN octet_length((in_delivery -> 'record')::text)
            > 100000 + 1000 * coalesce(cardinality(r.action), 0)
                + 100 * coalesce(cardinality(r.legal_actions), 0)
            THEN 'the record has more text than its columns need'
        ELSE record_fault(r, in_game, 1, in_newest_version)
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
    most_games CONSTANT bigint := 200000;
    worker_name CONSTANT text := left(in_worker, 200);
    newest CONSTANT integer := coalesce((SELECT max(version) FROM models WHERE run = in_run), 0);
    run_game text;
    is_full boolean := false;
BEGIN
    SELECT game INTO run_game FROM runs WHERE name = in_run;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no run %', in_run USING ERRCODE = 'foreign_key_violation';
    END IF;
    IF octet_length(in_records::text) > 64000000 THEN
        RAISE EXCEPTION 'a delivery of % MB is too large: save its games one by one',
            octet_length(in_records::text) / 1000000 USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Postgres' estimate costs nothing. Only where it is large are the games counted.
    IF pg_stat_get_live_tuples('unfinished_games'::regclass) >= most_games THEN
        is_full := most_games <= (SELECT count(*) FROM unfinished_games WHERE run = in_run);
    END IF;

    RETURN QUERY
    WITH delivered AS MATERIALIZED (
        SELECT d.ordinality, d.delivery, c.*
        FROM json_array_elements(in_records) WITH ORDINALITY AS d (delivery, ordinality)
        CROSS JOIN LATERAL check_unfinished(d.delivery, run_game, newest) AS c
    ), accepted AS MATERIALIZED (
        SELECT DISTINCT ON (d.game_uid) * FROM delivered AS d
        WHERE d.fault IS NULL
            AND NOT EXISTS (SELECT FROM games AS g WHERE g.game_uid = d.game_uid)
        ORDER BY d.game_uid, d.ordinality DESC
    ), left_out AS MATERIALIZED (
        SELECT a.game_uid FROM accepted AS a
        WHERE is_full
            AND NOT EXISTS (SELECT FROM unfinished_games AS u WHERE u.game_uid = a.game_uid)
    ), written AS (
        INSERT INTO unfinished_games (game_uid, run, epoch, ply, record, worker, lease_until)
        SELECT
            a.game_uid, in_run, a.epoch, a.ply, a.record, worker_name,
            now() + make_interval(secs => least(in_lease_seconds, 86400))
        FROM accepted AS a
        WHERE a.game_uid NOT IN (SELECT l.game_uid FROM left_out AS l)
        -- Every function locks unfinished games in the order of their uids: no deadlocks.
        ORDER BY a.game_uid
        ON CONFLICT (game_uid) DO UPDATE SET
            ply = excluded.ply, record = excluded.record, worker = excluded.worker,
            lease_until = excluded.lease_until, saved_at = now()
            WHERE unfinished_games.epoch = excluded.epoch AND unfinished_games.run = excluded.run
        RETURNING game_uid
    ), kept AS (
        INSERT INTO refused_games (game_uid, run, reason, worker, record)
        SELECT game_uid, in_run, fault, worker_name, delivery FROM delivered WHERE fault IS NOT NULL
        ON CONFLICT DO NOTHING
    )
    SELECT d.game_uid, CASE
        WHEN d.fault IS NOT NULL THEN 'rejected'
        WHEN w.game_uid IS NOT NULL THEN 'saved'
        WHEN d.game_uid IN (SELECT l.game_uid FROM left_out AS l) THEN 'full'
        ELSE 'lost'
    END, d.fault
    FROM delivered AS d LEFT JOIN written AS w ON w.game_uid = d.game_uid
    ORDER BY d.ordinality;
END
$$;
COMMENT ON FUNCTION save_unfinished IS
    'Save games in play under a lease. Answers in the order given: saved, lost (another worker has '
    'adopted the game, or it is over), full (the run has 200,000 unfinished games, and this is not one '
    'of them), rejected (the record contradicts itself; it is kept in refused_games). Each game is '
    'answered for by itself.';
