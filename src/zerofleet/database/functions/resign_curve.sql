CREATE FUNCTION played_on_games(in_run text, in_window_games integer, in_min_games integer)
RETURNS TABLE (game_uid uuid, result smallint, began_before timestamptz)
LANGUAGE sql STABLE SET search_path = public, pg_temp
BEGIN ATOMIC
    WITH lately_stored AS (
        SELECT ingested_at, ingested_at - began_at AS took FROM games
        WHERE run = in_run AND kind = 'selfplay' AND plays_on
        ORDER BY ingested_at DESC LIMIT in_window_games
    ), settled AS MATERIALIZED (
        SELECT max(ingested_at) - 2 * percentile_disc(0.95) WITHIN GROUP (ORDER BY took) AS before
        FROM lately_stored
    ), latest AS MATERIALIZED (
        SELECT g.game_uid, g.result, g.first_model FROM games AS g
        WHERE g.run = in_run AND g.kind = 'selfplay' AND g.plays_on
            AND g.began_at < (SELECT before FROM settled)
        ORDER BY g.began_at DESC, g.game_uid LIMIT in_window_games
    ), newest AS MATERIALIZED (
        SELECT first_model FROM latest GROUP BY first_model
        HAVING count(*) >= in_min_games ORDER BY first_model DESC LIMIT 1
    )
    SELECT l.game_uid, l.result, (SELECT before FROM settled) FROM latest AS l
    WHERE l.first_model >= coalesce((SELECT first_model FROM newest), 0);
END;
COMMENT ON FUNCTION played_on_games IS
    'The games played on that v_resign is computed from: the last ones in the order of their start, '
    'of those that began longer ago than twice what 95 % of the lately stored games took at most, '
    'counted back from the latest stored one. Of the games that began with these, hardly one is '
    'still in play; of those that began later, only the short ones are known, which would bias '
    'v_resign. A few games that an outage or a worker''s clock made long do not matter. Another model '
    'has other values: once the newest has enough games, those of older ones are left out.';


CREATE FUNCTION resign_curve(in_run text, in_window_games integer, in_min_games integer)
RETURNS TABLE (threshold real, would_resign bigint, wrong bigint)
LANGUAGE sql STABLE SET search_path = public, pg_temp
BEGIN ATOMIC
    WITH plies AS (
        SELECT
            p.game_uid, p.ply, greatest(p.root_value, p.best_child_value) AS value,
            g.result * (1 - 2 * p.to_play) >= 0 AS wrong,
            min(greatest(p.root_value, p.best_child_value)) OVER (
                PARTITION BY p.game_uid ORDER BY p.ply
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS lowest_before
        FROM played_on_games(in_run, in_window_games, in_min_games) AS g
        CROSS JOIN LATERAL (
            SELECT * FROM positions AS o WHERE o.game_uid = g.game_uid AND o.ply > 0 OFFSET 0
        ) AS p
    ), lows AS (
        -- With a threshold just above a ply's value, this ply ends the game, unless an earlier one is
        -- as low. Lowering the threshold to the value passes the game on to its next lower value.
        SELECT
            value, wrong, lead(wrong) OVER (PARTITION BY game_uid ORDER BY ply) AS next_wrong
        FROM plies WHERE lowest_before IS NULL OR value < lowest_before
    ), steps AS (
        SELECT
            value, count(*) FILTER (WHERE next_wrong IS NULL) AS would_resign,
            sum(wrong::integer - coalesce(next_wrong::integer, 0)) AS wrong
        FROM lows GROUP BY value
    ), curve AS (
        SELECT
            value AS threshold,
            coalesce(sum(would_resign) OVER below, 0)::bigint AS would_resign,
            coalesce(sum(wrong) OVER below, 0)::bigint AS wrong
        FROM steps
        WINDOW below AS (ORDER BY value ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    )
    SELECT threshold, would_resign, wrong FROM curve WHERE threshold >= -1 AND threshold < 0;
END;
COMMENT ON FUNCTION resign_curve IS
    'For each value in [-1, 0) that played_on_games offer as a threshold: how many of the games it '
    'would have ended, at the first ply but ply 0 whose root value and best child''s are below it, '
    'and in how many of these the player to move did not lose.';


CREATE FUNCTION last_v_resign(in_run text) RETURNS real
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    SELECT threshold FROM resign_thresholds
    WHERE run = in_run ORDER BY threshold_id DESC LIMIT 1;
END;
COMMENT ON FUNCTION last_v_resign IS 'v_resign as last computed; null: no player resigns.';
