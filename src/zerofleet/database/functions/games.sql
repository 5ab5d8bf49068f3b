CREATE FUNCTION column_fault(in_name text, in_column anyarray, in_entries integer) RETURNS text
LANGUAGE sql STABLE
AS $$
SELECT CASE
    WHEN in_column IS NULL THEN format('%s is missing', in_name)
    WHEN cardinality(in_column) <> in_entries THEN format(
        '%s has %s entries, not %s', in_name, cardinality(in_column), in_entries
    )
    WHEN array_ndims(in_column) > 1 OR array_lower(in_column, 1) <> 1
        THEN format('%s is no plain array', in_name)
    WHEN array_position(in_column, NULL) IS NOT NULL THEN format('%s holds a null', in_name)
END
$$;
COMMENT ON FUNCTION column_fault IS 'What is wrong with the shape of a column; null: nothing.';


CREATE FUNCTION record_fault(
    in_record game_record, in_game text, in_least_version integer, in_newest_version integer
)
RETURNS text
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    r CONSTANT game_record := in_record;
    offsets CONSTANT integer[] := r.offsets;
    plies CONSTANT integer := coalesce(cardinality(r.action), 0);
    entries CONSTANT integer := coalesce(cardinality(r.legal_actions), 0);
    fault text;
BEGIN
    -- Expressions without a query in them: plpgsql makes them ready once for a whole batch.
    fault := coalesce(
        CASE
            WHEN r.game_uid IS NULL THEN 'game_uid is missing'
            WHEN r.game IS DISTINCT FROM in_game THEN format('the run plays %s', in_game)
            WHEN r.reason IS NULL OR r.reason NOT IN ('rules', 'resign', 'adjudicated')
                THEN 'reason is neither rules nor resign'
            -- NaN is above every number here, so an upper bound refuses it too.
            WHEN r.resign_threshold NOT BETWEEN -1 AND 1
                THEN 'resign_threshold is not in [-1, 1]'
            WHEN r.plays_on IS NULL THEN 'plays_on is missing'
            WHEN coalesce(r.started_at NOT BETWEEN '1970-01-01 00:00Z' AND '2200-01-01 00:00Z', true)
                THEN 'started_at is missing, or no time that a clock shows'
            WHEN octet_length(r.start) > 1000 THEN 'start has more than 1,000 bytes'
            WHEN plies NOT BETWEEN 1 AND 32767 THEN 'action has no plies, or too many'
            -- Readers hold whole games in memory.
            WHEN entries > 1000000
                THEN format('its searches have %s entries, more than 1,000,000', entries)
        END,
        column_fault('action', r.action, plies),
        column_fault('to_play', r.to_play, plies),
        column_fault('model_version', r.model_version, plies),
        column_fault('root_value', r.root_value, plies),
        column_fault('network_value', r.network_value, plies),
        column_fault('best_child_value', r.best_child_value, plies),
        column_fault('simulations', r.simulations, plies),
        column_fault('full_search', r.full_search, plies),
        column_fault('offsets', r.offsets, plies + 1),
        column_fault('legal_actions', r.legal_actions, entries),
        column_fault('visit_counts', r.visit_counts, entries),
        column_fault('priors', r.priors, entries),
        -- Null: the visit counts are the target.
        column_fault('policy_weights', coalesce(r.policy_weights, r.visit_counts), entries),
        CASE
            WHEN r.offsets[1] <> 0 OR r.offsets[plies + 1] <> entries
                THEN 'offsets do not divide the search tables'
            WHEN 0 > ANY (r.action) OR 0 > ANY (r.legal_actions) THEN 'an action is negative'
            WHEN 0 > ANY (r.to_play) OR 1 < ANY (r.to_play) THEN 'to_play is neither 0 nor 1'
            WHEN in_least_version > ANY (r.model_version) THEN 'a model version is not positive'
            -- Workers may be ahead of a database that was restored.
            WHEN in_newest_version + 1000 < ANY (r.model_version)
                THEN format('a model version is far above the newest, %s', in_newest_version)
            WHEN 0 > ANY (r.simulations) THEN 'a number of simulations is negative'
            WHEN 0 > ANY (r.visit_counts) THEN 'a visit count is negative'
            WHEN 0 > ANY (r.policy_weights) THEN 'a policy weight is negative'
            WHEN 1.001 < ANY (r.root_value) OR -1.001 > ANY (r.root_value)
                OR 1.001 < ANY (r.network_value) OR -1.001 > ANY (r.network_value)
                OR 1.001 < ANY (r.best_child_value) OR -1.001 > ANY (r.best_child_value)
                THEN 'a value is not in [-1, 1]'
            WHEN 1.001 < ANY (r.priors) OR 0 > ANY (r.priors) THEN 'a prior is not in [0, 1]'
        END
    );
    IF fault IS NULL THEN
        FOR ply IN 1 .. plies LOOP
            IF offsets[ply] >= offsets[ply + 1] THEN
                RETURN 'offsets do not divide the search tables';
            END IF;
            IF offsets[ply + 1] - offsets[ply] > 32768 THEN
                RETURN 'a search has more entries than a game can have actions';
            END IF;
        END LOOP;
    END IF;
    RETURN fault;
END
$$;
COMMENT ON FUNCTION record_fault IS
    'Why a record, finished or not, contradicts itself or is of another game; null: it does not.';


CREATE FUNCTION submit_games(in_run text, in_worker text, in_games json)
RETURNS TABLE (game_uid uuid, status text, reason text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    worker_name CONSTANT text := left(in_worker, 200);
    run_game text;
    newest integer;    -- model of the run
    uids uuid[];       -- of the batch, in its order
    stored bigint[];   -- places in the batch, from 1
    faulty bigint[];
    faults text[];
BEGIN
    SELECT game INTO run_game FROM runs WHERE name = in_run;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no run %', in_run USING ERRCODE = 'foreign_key_violation';
    END IF;
    newest := coalesce((SELECT max(version) FROM models WHERE run = in_run), 0);
    -- The trainer reads the games of one transaction together, so this bounds what it reads.
    IF octet_length(in_games::text) > 64000000 THEN
        RAISE EXCEPTION 'a delivery of % MB is too large: deliver its games one by one',
            octet_length(in_games::text) / 1000000 USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF EXISTS (
        SELECT FROM games
        WHERE run = in_run AND kind <> 'match' AND tx = pg_current_xact_id_if_assigned()
    ) THEN
        RAISE EXCEPTION 'a transaction stores one delivery of games: commit it first'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- The trainer makes partitions ahead; while it is down, the next one is made here.
    IF partitions_due() THEN
        -- Without a partition for now the rows of this batch would be on their way to
        -- positions_default while another session makes that partition: wait until it has.
        IF NOT has_partition(now()) THEN
            LOCK TABLE partition_tries IN EXCLUSIVE MODE;
        END IF;
        IF partitions_due() THEN
            BEGIN
                PERFORM make_partitions(NULL, NULL);
            EXCEPTION
                -- The games are not at fault: their searches go to positions_default.
                WHEN OTHERS THEN
                    RAISE WARNING 'no partition of positions is made: %', SQLERRM;
            END;
        END IF;
    END IF;

    WITH delivered AS MATERIALIZED (
        SELECT
            d.epoch, d.kind, d.moves, d.content_sha256, (d.record).*, d.ordinality,
            record_fault(
                d.record, run_game, CASE d.kind WHEN 'selfplay' THEN 1 ELSE 0 END, newest
            ) AS fault
        FROM ROWS FROM (json_to_recordset(in_games) AS (
            epoch integer, kind text, moves text, content_sha256 bytea, record game_record
        )) WITH ORDINALITY AS d
    ), checked AS MATERIALIZED (
        SELECT game_uid, epoch, ordinality, CASE
            WHEN epoch IS NULL THEN 'epoch is missing'
            -- The database's owner alone gives a run games.
            WHEN kind IS NULL OR kind NOT IN ('selfplay', 'match') AND (
                kind <> 'given' OR session_user IN ('zerofleet_worker', 'zerofleet_evaluator')
            )
                THEN 'kind is neither selfplay nor match'
            WHEN kind <> 'given' AND reason = 'adjudicated'
                THEN 'reason is neither rules nor resign'
            WHEN moves IS NULL THEN 'moves is missing'
            WHEN coalesce(octet_length(content_sha256), 0) <> 32
                THEN 'content_sha256 is not 32 bytes'
            WHEN fault IS NOT NULL THEN fault
            WHEN octet_length(moves) > 256 * cardinality(action)
                THEN 'moves has more text than 256 bytes a ply'
            WHEN result IS NULL OR result NOT BETWEEN -1 AND 1 THEN 'result is not -1, 0 or 1'
            WHEN kind = 'selfplay' AND reason = 'resign'
                AND (resign_threshold IS NULL OR plays_on)
                THEN 'resigned, though no player could resign'
            WHEN coalesce(finished_at NOT BETWEEN '1970-01-01 00:00Z' AND '2200-01-01 00:00Z', true)
                THEN 'finished_at is missing, or no time that a clock shows'
        END AS fault
        FROM delivered
    ), held AS MATERIALIZED (
        SELECT u.game_uid, u.epoch FROM unfinished_games AS u
        WHERE u.game_uid IN (SELECT c.game_uid FROM checked AS c)
        ORDER BY u.game_uid FOR UPDATE
    ), accepted AS MATERIALIZED (
        SELECT min(c.ordinality) AS ordinality
        FROM checked AS c LEFT JOIN held AS h ON h.game_uid = c.game_uid
        WHERE c.fault IS NULL AND (h.epoch IS NULL OR h.epoch = c.epoch)
        GROUP BY c.game_uid
    ), stored_games AS (
        INSERT INTO games (
            game_uid, run, kind, first_model, second_model, result, reason, length, worker,
            started_at, finished_at, moves, content_sha256, resign_threshold, plays_on, began_at,
            opening_plies, start, restarted
        )
        SELECT
            d.game_uid, in_run, d.kind,
            -- After a start position the second player may move first.
            CASE d.to_play[1] WHEN 1 THEN coalesce(d.model_version[2], d.model_version[1])
                ELSE d.model_version[1] END,
            d.model_version[2 - d.to_play[1]], d.result,
            d.reason, cardinality(d.action), worker_name, d.started_at, d.finished_at, d.moves,
            d.content_sha256, d.resign_threshold, d.plays_on,
            now() - greatest(d.finished_at - d.started_at, interval '0'),
            -- Searches of `zerofleet import` have no priors: the moves are of a game from a file.
            CASE WHEN d.kind = 'selfplay' OR d.kind = 'given' AND 0 < ANY (d.priors) THEN coalesce(
                (
                    SELECT min(place) - 1 FROM unnest(d.simulations) WITH ORDINALITY AS s (n, place)
                    WHERE n > 0
                ),
                cardinality(d.action)
            ) END,
            -- Workers of an earlier version do not send them.
            coalesce(d.start, ''), coalesce(d.restarted, false)
        FROM delivered AS d JOIN accepted USING (ordinality)
        ON CONFLICT DO NOTHING
        RETURNING game_uid
    ), stored_places AS MATERIALIZED (
        SELECT c.ordinality FROM checked AS c
        JOIN accepted USING (ordinality) JOIN stored_games USING (game_uid)
    ), stored_positions AS (
        INSERT INTO positions (
            game_uid, ply, action, to_play, model_version, root_value, network_value,
            best_child_value, simulations, full_search, legal_actions, visit_counts, priors,
            policy_weights
        )
        SELECT
            d.game_uid, ply,
            d.action[ply + 1],
            d.to_play[ply + 1],
            d.model_version[ply + 1],
            d.root_value[ply + 1],
            d.network_value[ply + 1],
            d.best_child_value[ply + 1],
            d.simulations[ply + 1],
            d.full_search[ply + 1],
            d.legal_actions[d.offsets[ply + 1] + 1 : d.offsets[ply + 2]],
            d.visit_counts[d.offsets[ply + 1] + 1 : d.offsets[ply + 2]],
            d.priors[d.offsets[ply + 1] + 1 : d.offsets[ply + 2]],
            nullif(
                d.policy_weights[d.offsets[ply + 1] + 1 : d.offsets[ply + 2]],
                d.visit_counts[d.offsets[ply + 1] + 1 : d.offsets[ply + 2]]
            )
        FROM delivered AS d JOIN stored_places USING (ordinality)
        CROSS JOIN LATERAL generate_series(0, cardinality(d.action) - 1) AS ply
    ), finished_games AS (
        DELETE FROM unfinished_games AS u USING stored_games AS s WHERE u.game_uid = s.game_uid
    )
    SELECT
        coalesce(array_agg(c.game_uid ORDER BY c.ordinality), '{}'),
        coalesce((SELECT array_agg(s.ordinality) FROM stored_places AS s), '{}'),
        coalesce(array_agg(c.ordinality) FILTER (WHERE c.fault IS NOT NULL), '{}'),
        coalesce(array_agg(c.fault) FILTER (WHERE c.fault IS NOT NULL), '{}')
    INTO uids, stored, faulty, faults FROM checked AS c;

    IF cardinality(stored) = cardinality(uids) THEN
        RETURN QUERY
        SELECT u.game_uid, 'stored', NULL::text
        FROM unnest(uids) WITH ORDINALITY AS u (game_uid, ordinality) ORDER BY u.ordinality;
        RETURN;
    END IF;

    -- A new statement sees what other transactions have committed in the meantime.
    RETURN QUERY
    WITH answered AS MATERIALIZED (
        SELECT
            u.game_uid,
            (d.record ->> 'content_sha256')::bytea AS content_sha256,
            d.record, d.ordinality, f.fault,
            d.ordinality = ANY (stored) AS is_stored,
            g.content_sha256 AS known_sha256,
            -- Two workers had one beginning: one of them took the game over from the other.
            coalesce(
                g.worker <> worker_name
                    AND g.started_at = (d.record #>> '{record, started_at}')::timestamptz,
                g.game_uid IS NULL
            ) AS is_adopted
        FROM json_array_elements(in_games) WITH ORDINALITY AS d (record, ordinality)
        JOIN unnest(uids) WITH ORDINALITY AS u (game_uid, ordinality) USING (ordinality)
        LEFT JOIN unnest(faulty, faults) AS f (ordinality, fault) USING (ordinality)
        LEFT JOIN games AS g ON g.game_uid = u.game_uid
    ), judged AS MATERIALIZED (
        SELECT *, CASE
            WHEN is_stored THEN 'stored'
            WHEN fault IS NOT NULL THEN 'rejected'
            WHEN known_sha256 = content_sha256 THEN 'duplicate'
            WHEN is_adopted THEN 'adopted'
            ELSE 'conflict'
        END AS status, CASE
            WHEN is_stored THEN NULL
            WHEN fault IS NOT NULL THEN fault
            WHEN known_sha256 = content_sha256 THEN NULL
            WHEN is_adopted THEN 'another worker has adopted the game'
            ELSE 'the uid belongs to another record'
        END AS reason
        FROM answered
    ), kept AS (
        INSERT INTO refused_games (game_uid, content_sha256, run, reason, worker, record)
        SELECT game_uid, content_sha256, in_run, reason, worker_name, record FROM judged
        WHERE status IN ('adopted', 'conflict', 'rejected')
        ON CONFLICT DO NOTHING
    )
    SELECT j.game_uid, j.status, j.reason FROM judged AS j ORDER BY j.ordinality;
END
$$;
COMMENT ON FUNCTION submit_games IS
    'Store finished games with their positions, each exactly once, however often it is delivered. '
    'Answers in the order given: stored, duplicate (it was there already), adopted (another worker '
    'has taken the game over, whose record counts), conflict (its uid belongs to another record), '
    'rejected (it contradicts itself). Each game is answered for by itself.';
