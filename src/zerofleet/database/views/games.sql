-- The same names as in zerofleet.games.notation.
CREATE VIEW player_names AS
SELECT
    r.name AS run,
    r.game,
    coalesce(named.first_player, 'first') AS first_player,
    coalesce(named.second_player, 'second') AS second_player
FROM runs AS r
LEFT JOIN (
    VALUES
        ('chess', 'White', 'Black'),
        ('connect_four', 'Red', 'Yellow'),
        ('go', 'Black', 'White'),
        ('gomoku', 'Black', 'White'),
        ('mnk', 'X', 'O'),
        ('othello', 'Black', 'White'),
        ('tic_tac_toe', 'X', 'O')
) AS named (family, first_player, second_player)
    ON named.family = split_part(replace(r.game, 'openspiel:', ''), '(', 1);
COMMENT ON VIEW player_names IS
    'The players of each run''s game. The first player, 0, is White in chess, Black in Go, Gomoku and '
    'Othello, Red in Connect Four, and X in tic-tac-toe and mnk. The players of other games are first '
    'and second.';

CREATE VIEW games_per_hour AS
SELECT
    run,
    date_trunc('hour', ingested_at) AS hour,
    count(*) AS games,
    sum(length) AS plies,
    round((sum(length) / nullif(extract(epoch FROM max(ingested_at) - min(ingested_at)), 0)), 1)
        AS plies_per_second,
    count(DISTINCT worker) AS workers
FROM games
WHERE kind = 'selfplay'
GROUP BY run, hour;
COMMENT ON VIEW games_per_hour IS
    'Self-play games stored in each hour. plies_per_second: between the hour''s first game and last.';

CREATE VIEW model_summary AS
SELECT
    run,
    first_model AS model,
    count(*) AS games,
    round(100.0 * count(*) FILTER (WHERE result = 1) / count(*), 1) AS first_player_win_percent,
    round(100.0 * count(*) FILTER (WHERE result = -1) / count(*), 1) AS second_player_win_percent,
    round(100.0 * count(*) FILTER (WHERE result = 0) / count(*), 1) AS draw_percent,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY length) AS median_length,
    round(100.0 * count(*) FILTER (WHERE reason = 'resign') / count(*), 1) AS resign_percent
FROM games
WHERE kind = 'selfplay'
GROUP BY run, first_model;
COMMENT ON VIEW model_summary IS
    'How the self-play games of each model end. player_names has the colours of the players.';

CREATE VIEW openings AS
SELECT
    run,
    first_model AS model,
    array_to_string((string_to_array(moves, ' '))[1:3], ' ') AS opening,
    count(*) AS games,
    round(100.0 * count(*) / sum(count(*)) OVER (PARTITION BY run, first_model), 1) AS percent,
    round(avg((result + 1) / 2.0), 3) AS first_player_score
FROM games AS g
WHERE
    kind = 'selfplay'
    AND start = ''
    AND coalesce(
        opening_plies,
        (SELECT min(ply) FROM positions AS p WHERE p.game_uid = g.game_uid AND simulations > 0),
        0
    ) = 0
GROUP BY run, first_model, opening;
COMMENT ON VIEW openings IS
    'The first three moves of self-play games by model; first_player_score counts draws half, and '
    'player_names has the first player''s colour. Games that begin elsewhere, or with random or repeated '
    'moves, are left out, unless an earlier version stored them and their searches were deleted.';

CREATE VIEW value_calibration AS
SELECT
    g.run,
    bin,
    round(bin / 10.0 - 1.1, 1) AS from_value,
    round(bin / 10.0 - 1.0, 1) AS to_value,
    count(*) AS positions,
    round(avg(p.root_value)::numeric, 3) AS predicted,
    round(avg(g.result * (1 - 2 * p.to_play)), 3) AS actual
FROM games AS g
JOIN positions AS p USING (game_uid)
CROSS JOIN LATERAL greatest(1, least(20, width_bucket(p.root_value, -1, 1, 20))) AS bin
WHERE g.kind = 'selfplay'
GROUP BY g.run, bin;
COMMENT ON VIEW value_calibration IS
    'Value after search, in twenty bins, against the result for the player to move; over the games '
    'whose searches are kept.';

CREATE VIEW game_length AS
SELECT
    run,
    first_model AS model,
    length,
    count(*) AS games,
    round(100.0 * count(*) / sum(count(*)) OVER (PARTITION BY run, first_model), 1) AS percent
FROM games
WHERE kind = 'selfplay'
GROUP BY run, first_model, length;
COMMENT ON VIEW game_length IS 'Lengths of self-play games in plies, by model.';

CREATE VIEW duplicates AS
SELECT
    run,
    first_model AS model,
    count(*) AS games,
    count(DISTINCT (start, moves)) AS distinct_games,
    round(100.0 * count(DISTINCT (start, moves)) / count(*), 1) AS distinct_percent
FROM games
WHERE kind = 'selfplay'
GROUP BY run, first_model;
COMMENT ON VIEW duplicates IS
    'Self-play games with the same moves, by model: few distinct games mean little exploration.';

CREATE VIEW game_moves AS
SELECT
    p.game_uid,
    g.run,
    p.ply,
    CASE p.to_play WHEN 0 THEN 'first' ELSE 'second' END AS player,
    CASE p.to_play WHEN 0 THEN n.first_player ELSE n.second_player END AS player_name,
    (string_to_array(g.moves, ' '))[p.ply + 1] AS move,
    p.action,
    round(p.root_value::numeric, 3) AS value,
    round(p.network_value::numeric, 3) AS network_value,
    p.visit_counts[array_position(p.legal_actions, p.action)] AS visits,
    round(p.priors[array_position(p.legal_actions, p.action)]::numeric, 3) AS prior,
    p.simulations,
    p.full_search,
    p.model_version AS model,
    p.legal_actions,
    p.visit_counts,
    round(p.best_child_value::numeric, 3) AS best_child_value,
    coalesce(p.policy_weights, p.visit_counts) AS policy_weights
FROM positions AS p
JOIN games AS g USING (game_uid)
JOIN player_names AS n ON n.run = g.run;
COMMENT ON VIEW game_moves IS
    'Games move by move, values for the player to move: filter by game_uid, order by ply. player_name '
    'is the colour, such as White in chess. Compare values of one player and one model only: in a match '
    'each player has its own values. Games whose searches were deleted are not included; games.moves has '
    'their moves.';

CREATE VIEW largest_mistakes AS
SELECT r.name AS run, worst.*
FROM runs AS r
CROSS JOIN LATERAL (
    SELECT DISTINCT ON (ply.game_uid)
        ply.game_uid,
        ply.ply,
        ply.model,
        round(ply.value::numeric, 3) AS value,
        ply.result,
        round(ply.regret::numeric, 3) AS regret
    FROM (
        SELECT
            newest.game_uid,
            p.ply,
            p.full_search,
            p.model_version AS model,
            p.root_value AS value,
            newest.result * (1 - 2 * p.to_play) AS result,
            avg((p.root_value - newest.result * (1 - 2 * p.to_play)) ^ 2)
                FILTER (WHERE p.full_search)
                OVER (PARTITION BY newest.game_uid ORDER BY p.ply DESC) AS regret
        FROM (
            SELECT g.game_uid, g.result FROM games AS g
            WHERE g.run = r.name AND g.kind = 'selfplay'
            ORDER BY g.tx DESC LIMIT 1000
        ) AS newest
        -- OFFSET 0 stops the planner from merging this subquery: one index scan for each game.
        CROSS JOIN LATERAL (
            SELECT * FROM positions AS each WHERE each.game_uid = newest.game_uid OFFSET 0
        ) AS p
    ) AS ply
    WHERE ply.full_search
    ORDER BY ply.game_uid, ply.regret DESC, ply.ply
) AS worst;
COMMENT ON VIEW largest_mistakes IS
    'The position with the largest regret in each of the newest 1,000 self-play games of a run. Values '
    'and results are for the player to move. regret: mean squared difference of value and result from '
    'this ply to the end, 0 to 4 (Tsai et al. 2026). To look at the largest mistakes, order by regret '
    'and open /games/GAME_UID?ply=PLY on the dashboard.';
