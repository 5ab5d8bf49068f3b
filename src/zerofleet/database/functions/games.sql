CREATE FUNCTION submit_games(in_run text, in_worker text, in_games json)
RETURNS TABLE (game_uid uuid, status text, reason text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    run_game text;
    stored bigint[];   -- places in the batch, from 1
    faulty bigint[];
    faults text[];
BEGIN
    SELECT game INTO run_game FROM runs WHERE name = in_run;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no run %', in_run USING ERRCODE = 'foreign_key_violation';
    END IF;
    -- The trainer makes partitions ahead; while it is away, the next one is made here.
    IF NOT EXISTS (SELECT FROM position_partitions WHERE until > now() + interval '1 hour') THEN
        PERFORM make_partitions(24, now() + interval '2 days');
    END IF;

    WITH delivered AS MATERIALIZED (
        SELECT * FROM ROWS FROM (json_to_recordset(in_games) AS (
            game_uid uuid, epoch integer, kind text, game text, result smallint, reason text,
            started_at timestamptz, finished_at timestamptz, moves text, content_sha256 bytea,
            actions smallint[], model_versions integer[], root_values real[],
            network_values real[], simulations integer[], full_search boolean[],
            offsets integer[], child_actions smallint[], child_visit_counts integer[],
            child_priors real[],
            -- A worker of the version before sends none of these.
            best_child_values real[], child_policy_weights integer[], resign_threshold real,
            plays_on boolean, to_play smallint[]
        )) WITH ORDINALITY
    ), checked AS MATERIALIZED (
        -- NaN is above every number here, so an upper bound refuses it too.
        SELECT game_uid, epoch, ordinality, CASE
            WHEN game_uid IS NULL THEN 'game_uid is missing'
            WHEN epoch IS NULL THEN 'epoch is missing'
            WHEN game IS DISTINCT FROM run_game THEN format('the run plays %s', run_game)
            WHEN kind IS NULL OR kind NOT IN ('selfplay', 'match')
                THEN 'kind is neither selfplay nor match'
            WHEN result IS NULL OR result NOT BETWEEN -1 AND 1 THEN 'result is not -1, 0 or 1'
            WHEN reason IS NULL OR moves IS NULL THEN 'reason or moves is missing'
            WHEN reason NOT IN ('rules', 'resign') THEN 'reason is neither rules nor resign'
            WHEN resign_threshold NOT BETWEEN -1 AND 1
                THEN 'resign_threshold is not in [-1, 1]'
            WHEN kind = 'selfplay' AND reason = 'resign'
                AND (resign_threshold IS NULL OR plays_on)
                THEN 'resigned, though nobody could resign'
            WHEN started_at IS NULL OR finished_at IS NULL THEN 'a time is missing'
            WHEN octet_length(content_sha256) IS DISTINCT FROM 32
                THEN 'content_sha256 is not 32 bytes'
            WHEN coalesce(cardinality(actions), 0) NOT BETWEEN 1 AND 32767
                THEN 'actions has no plies, or too many'
            WHEN cardinality(model_versions) IS DISTINCT FROM cardinality(actions)
                OR cardinality(root_values) IS DISTINCT FROM cardinality(actions)
                OR cardinality(network_values) IS DISTINCT FROM cardinality(actions)
                OR cardinality(simulations) IS DISTINCT FROM cardinality(actions)
                OR cardinality(full_search) IS DISTINCT FROM cardinality(actions)
                OR cardinality(offsets) IS DISTINCT FROM cardinality(actions) + 1
                OR cardinality(best_child_values) <> cardinality(actions)
                OR cardinality(to_play) <> cardinality(actions)
                THEN 'the columns of plies differ in length'
            WHEN cardinality(child_visit_counts) IS DISTINCT FROM cardinality(child_actions)
                OR cardinality(child_priors) IS DISTINCT FROM cardinality(child_actions)
                OR cardinality(child_actions) IS NULL
                OR cardinality(child_policy_weights) <> cardinality(child_actions)
                THEN 'the columns of the search tables differ in length'
            WHEN array_position(actions, NULL) IS NOT NULL
                OR array_position(model_versions, NULL) IS NOT NULL
                OR array_position(root_values, NULL) IS NOT NULL
                OR array_position(network_values, NULL) IS NOT NULL
                OR array_position(simulations, NULL) IS NOT NULL
                OR array_position(full_search, NULL) IS NOT NULL
                OR array_position(offsets, NULL) IS NOT NULL
                OR array_position(child_actions, NULL) IS NOT NULL
                OR array_position(child_visit_counts, NULL) IS NOT NULL
                OR array_position(child_priors, NULL) IS NOT NULL
                OR array_position(best_child_values, NULL) IS NOT NULL
                OR array_position(child_policy_weights, NULL) IS NOT NULL
                THEN 'a column holds a null'
            WHEN offsets[1] <> 0 OR offsets[cardinality(offsets)] <> cardinality(child_actions)
                OR EXISTS (
                    SELECT FROM generate_series(1, cardinality(actions)) AS ply
                    WHERE offsets[ply] >= offsets[ply + 1]
                )
                THEN 'offsets do not divide the search tables'
            WHEN 0 > ANY (actions) OR 0 > ANY (child_actions) THEN 'an action is negative'
            WHEN 0 > ANY (to_play) OR 1 < ANY (to_play)
                OR array_position(to_play, NULL) IS NOT NULL
                THEN 'to_play is neither 0 nor 1'
            -- In a match, version 0 is an opponent without a model.
            WHEN CASE kind WHEN 'match' THEN 0 ELSE 1 END > ANY (model_versions)
                THEN 'a model version is not positive'
            WHEN 0 > ANY (simulations) THEN 'a number of simulations is negative'
            WHEN 0 > ANY (child_visit_counts) THEN 'a visit count is negative'
            WHEN 0 > ANY (child_policy_weights) THEN 'a policy weight is negative'
            WHEN 1.001 < ANY (root_values) OR -1.001 > ANY (root_values)
                OR 1.001 < ANY (network_values) OR -1.001 > ANY (network_values)
                OR 1.001 < ANY (best_child_values) OR -1.001 > ANY (best_child_values)
                THEN 'a value is not in [-1, 1]'
            WHEN 1.001 < ANY (child_priors) OR 0 > ANY (child_priors)
                THEN 'a prior is not in [0, 1]'
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
            started_at, finished_at, moves, content_sha256, resign_threshold, plays_on, began_at
        )
        SELECT
            d.game_uid, in_run, d.kind, d.model_versions[1], d.model_versions[2], d.result,
            d.reason, cardinality(d.actions), in_worker, d.started_at, d.finished_at, d.moves,
            d.content_sha256, d.resign_threshold, coalesce(d.plays_on, false),
            now() - greatest(d.finished_at - d.started_at, interval '0')
        FROM delivered AS d JOIN accepted USING (ordinality)
        ON CONFLICT DO NOTHING
        RETURNING game_uid
    ), stored_places AS MATERIALIZED (
        SELECT c.ordinality FROM checked AS c
        JOIN accepted USING (ordinality) JOIN stored_games USING (game_uid)
    ), stored_positions AS (
        INSERT INTO positions (
            game_uid, ply, action, to_play, model_version, root_value, network_value, simulations,
            full_search, actions, visit_counts, priors, best_child_value, policy_weights
        )
        SELECT
            d.game_uid, ply, d.actions[ply + 1], coalesce(d.to_play[ply + 1], ply % 2), d.model_versions[ply + 1],
            d.root_values[ply + 1], d.network_values[ply + 1], d.simulations[ply + 1],
            d.full_search[ply + 1],
            d.child_actions[d.offsets[ply + 1] + 1 : d.offsets[ply + 2]],
            d.child_visit_counts[d.offsets[ply + 1] + 1 : d.offsets[ply + 2]],
            d.child_priors[d.offsets[ply + 1] + 1 : d.offsets[ply + 2]],
            d.best_child_values[ply + 1],
            nullif(
                d.child_policy_weights[d.offsets[ply + 1] + 1 : d.offsets[ply + 2]],
                d.child_visit_counts[d.offsets[ply + 1] + 1 : d.offsets[ply + 2]]
            )
        FROM delivered AS d JOIN stored_places USING (ordinality)
        CROSS JOIN LATERAL generate_series(0, cardinality(d.actions) - 1) AS ply
    ), finished_games AS (
        DELETE FROM unfinished_games AS u USING stored_games AS s WHERE u.game_uid = s.game_uid
    )
    SELECT
        coalesce((SELECT array_agg(s.ordinality) FROM stored_places AS s), '{}'),
        coalesce(array_agg(c.ordinality) FILTER (WHERE c.fault IS NOT NULL), '{}'),
        coalesce(array_agg(c.fault) FILTER (WHERE c.fault IS NOT NULL), '{}')
    INTO stored, faulty, faults FROM checked AS c;

    IF cardinality(stored) = json_array_length(in_games) THEN
        RETURN QUERY
        SELECT (game ->> 'game_uid')::uuid, 'stored', NULL::text
        FROM json_array_elements(in_games) AS game;
        RETURN;
    END IF;

    -- A new statement sees what other transactions have committed in the meantime.
    RETURN QUERY
    WITH answered AS MATERIALIZED (
        SELECT
            (d.record ->> 'game_uid')::uuid AS game_uid,
            (d.record ->> 'content_sha256')::bytea AS content_sha256,
            d.record, d.ordinality, f.fault,
            d.ordinality = ANY (stored) AS is_stored,
            g.content_sha256 AS known_sha256
        FROM json_array_elements(in_games) WITH ORDINALITY AS d (record, ordinality)
        LEFT JOIN unnest(faulty, faults) AS f (ordinality, fault) USING (ordinality)
        LEFT JOIN games AS g ON g.game_uid = (d.record ->> 'game_uid')::uuid
    ), judged AS MATERIALIZED (
        SELECT *, CASE
            WHEN is_stored THEN 'stored'
            WHEN fault IS NOT NULL THEN 'rejected'
            WHEN known_sha256 = content_sha256 THEN 'duplicate'
            ELSE 'conflict'
        END AS status, CASE
            WHEN is_stored THEN NULL
            WHEN fault IS NOT NULL THEN fault
            WHEN known_sha256 = content_sha256 THEN NULL
            WHEN known_sha256 IS NULL THEN 'another worker has adopted the game'
            ELSE 'the uid belongs to another record'
        END AS reason
        FROM answered
    ), kept AS (
        INSERT INTO games_conflict (game_uid, content_sha256, run, reason, worker, record)
        SELECT game_uid, content_sha256, in_run, reason, in_worker, record FROM judged
        WHERE status IN ('conflict', 'rejected')
        ON CONFLICT DO NOTHING
    )
    SELECT j.game_uid, j.status, j.reason FROM judged AS j ORDER BY j.ordinality;
END
$$;
COMMENT ON FUNCTION submit_games IS
    'Store finished games with their positions, each exactly once, however often it is delivered. '
    'Answers in the order given: stored, duplicate (it was there already), conflict (its uid belongs '
    'to another record, or another worker has adopted the game), rejected (it contradicts itself). '
    'One game''s fate is no other''s.';
