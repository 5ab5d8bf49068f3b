CREATE TABLE resign_thresholds (
    threshold_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run text NOT NULL REFERENCES runs,
    at timestamptz NOT NULL DEFAULT now(),
    threshold real CHECK (threshold BETWEEN -1 AND 1),
    games integer NOT NULL CHECK (games >= 0),
    would_resign integer NOT NULL CHECK (would_resign BETWEEN 0 AND games),
    wrong integer NOT NULL CHECK (wrong BETWEEN 0 AND would_resign),
    false_positive_share real NOT NULL,
    min_games integer NOT NULL,
    window_games integer NOT NULL,
    highest real NOT NULL CHECK (highest BETWEEN -1 AND 0),
    began_before timestamptz
);
CREATE INDEX resign_thresholds_newest ON resign_thresholds (run, threshold_id);
COMMENT ON TABLE resign_thresholds IS
    'v_resign over time, a log that only grows: the newest row of a run is what games begin with.';
COMMENT ON COLUMN resign_thresholds.threshold IS
    'The player to move resigns when the root''s value and its most visited child''s are below this; '
    'null: nobody resigns.';
COMMENT ON COLUMN resign_thresholds.games IS 'Games played on that it was computed from.';
COMMENT ON COLUMN resign_thresholds.would_resign IS 'Of these, the ones that it would have ended.';
COMMENT ON COLUMN resign_thresholds.wrong IS 'Of these, the ones that the resigning player did not lose.';
COMMENT ON COLUMN resign_thresholds.false_positive_share IS
    'What was asked for: (wrong + 1) / (would_resign + 1) is at most this.';
COMMENT ON COLUMN resign_thresholds.min_games IS 'What was asked for: with fewer games there is none.';
COMMENT ON COLUMN resign_thresholds.window_games IS 'What was asked for: games looked at, at most.';
COMMENT ON COLUMN resign_thresholds.highest IS
    'What was asked for: no threshold is above this, whatever the games say.';
COMMENT ON COLUMN resign_thresholds.began_before IS
    'Games that began later were left out: others that began with them may still be in play.';

CREATE FUNCTION forbid_rewriting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% only grows: what is written stays', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;
COMMENT ON FUNCTION forbid_rewriting IS 'Keep a log append-only, for its owner too.';

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON resign_thresholds
    FOR EACH STATEMENT EXECUTE FUNCTION forbid_rewriting();


CREATE FUNCTION resign_games(in_run text, in_window_games integer, in_min_games integer)
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
COMMENT ON FUNCTION resign_games IS
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
        FROM resign_games(in_run, in_window_games, in_min_games) AS g
        CROSS JOIN LATERAL (
            SELECT * FROM positions AS o WHERE o.game_uid = g.game_uid AND o.ply > 0 OFFSET 0
        ) AS p
    ), lows AS (
        -- With a threshold just above a ply's value this ply ends the game, unless an earlier one
        -- is as low. Lowering the threshold to the value hands the game on to its next low.
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
    'For each value in [-1, 0) that resign_games offer as a threshold: how many of the games it would '
    'have ended, at the first ply but the empty board whose root value and most visited child''s '
    'are below it, and in how many of these the player to move did not lose.';


CREATE FUNCTION resign_threshold(in_run text) RETURNS real
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    SELECT threshold FROM resign_thresholds
    WHERE run = in_run ORDER BY threshold_id DESC LIMIT 1;
END;
COMMENT ON FUNCTION resign_threshold IS 'v_resign as last computed; null: nobody resigns.';


CREATE VIEW resign_history AS
SELECT
    run,
    at AS since,
    threshold,
    games,
    would_resign,
    wrong,
    round(100.0 * wrong / nullif(would_resign, 0), 2) AS wrong_percent,
    round(100.0 * false_positive_share::numeric, 2) AS allowed_percent,
    began_before
FROM (
    SELECT *, lag(threshold_id) OVER series IS NULL
        OR threshold IS DISTINCT FROM lag(threshold) OVER series AS is_change
    FROM resign_thresholds
    WINDOW series AS (PARTITION BY run ORDER BY threshold_id)
) AS t
WHERE is_change;
COMMENT ON VIEW resign_history IS
    'Each change of v_resign with the games played on that it follows from.';

DROP VIEW resign_audit;
CREATE VIEW resign_audit AS
WITH audited AS (
    SELECT game_uid, run, result, plays_on FROM games
    WHERE kind = 'selfplay' AND (plays_on OR resign_threshold IS NULL)
), thresholds (threshold) AS (
    VALUES (-0.99::real), (-0.95), (-0.9), (-0.85), (-0.8), (-0.7), (-0.6), (-0.5)
), resignations AS (
    -- Who would have resigned first, and how that player's game ended in truth.
    SELECT DISTINCT ON (a.game_uid, t.threshold)
        a.run, t.threshold, a.plays_on, a.result * (1 - 2 * p.to_play) AS outcome
    FROM audited AS a
    JOIN positions AS p USING (game_uid)
    JOIN thresholds AS t ON greatest(p.root_value, p.best_child_value) < t.threshold
    WHERE p.ply > 0
    ORDER BY a.game_uid, t.threshold, p.ply
), counted AS (
    SELECT
        n.run,
        t.threshold,
        n.games,
        count(*) FILTER (WHERE r.plays_on) AS would_resign,
        count(*) FILTER (WHERE r.plays_on AND r.outcome >= 0) AS wrong,
        n.all_games,
        count(r.outcome) AS all_would_resign,
        count(*) FILTER (WHERE r.outcome >= 0) AS all_wrong
    FROM (
        SELECT run, count(*) FILTER (WHERE plays_on) AS games, count(*) AS all_games
        FROM audited GROUP BY run
    ) AS n
    CROSS JOIN thresholds AS t
    LEFT JOIN resignations AS r ON r.run = n.run AND r.threshold = t.threshold
    GROUP BY n.run, n.games, n.all_games, t.threshold
)
SELECT
    run,
    threshold,
    games,
    would_resign,
    wrong,
    round(100.0 * wrong / nullif(would_resign, 0), 2) AS wrong_percent,
    all_games,
    all_would_resign,
    all_wrong,
    round(100.0 * all_wrong / nullif(all_would_resign, 0), 2) AS all_wrong_percent
FROM counted;
COMMENT ON VIEW resign_audit IS
    'At each threshold: how many of the games played on it would have ended, and in how many of these '
    'that player did not lose. AlphaGo Zero kept the latter under 5 %. all_: over the games from '
    'before there was a threshold too.';

CREATE VIEW resign_check AS
SELECT
    g.run,
    g.first_model AS model,
    count(*) AS games,
    count(*) FILTER (WHERE g.reason = 'resign') AS resigned,
    count(*) FILTER (WHERE g.plays_on) AS played_on,
    count(r.outcome) AS would_resign,
    count(*) FILTER (WHERE r.outcome >= 0) AS wrong,
    round(100.0 * count(*) FILTER (WHERE r.outcome >= 0) / nullif(count(r.outcome), 0), 2)
        AS wrong_percent
FROM games AS g
LEFT JOIN LATERAL (
    SELECT g.result * (1 - 2 * p.to_play) AS outcome FROM positions AS p
    WHERE p.game_uid = g.game_uid AND p.ply > 0
        AND greatest(p.root_value, p.best_child_value) < g.resign_threshold
    ORDER BY p.ply LIMIT 1
) AS r ON g.plays_on
WHERE g.kind = 'selfplay' AND g.resign_threshold IS NOT NULL
GROUP BY g.run, g.first_model;
COMMENT ON VIEW resign_check IS
    'How v_resign fares, by model: over the games that began with one, how many were resigned; of '
    'those played on, how many it would have ended, and in how many of these that player did not '
    'lose. No v_resign was computed from a game that began with it, so this is a fair test.';


REVOKE EXECUTE ON FUNCTION forbid_rewriting, resign_games, resign_curve, resign_threshold
    FROM PUBLIC;
GRANT SELECT ON resign_thresholds, resign_history, resign_audit, resign_check TO zerofleet_console;
GRANT SELECT, INSERT ON resign_thresholds TO zerofleet_trainer;
GRANT EXECUTE ON FUNCTION resign_games, resign_curve TO zerofleet_trainer, zerofleet_console;
GRANT EXECUTE ON FUNCTION resign_threshold
    TO zerofleet_worker, zerofleet_trainer, zerofleet_console;
