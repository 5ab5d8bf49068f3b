CREATE VIEW rated_games AS
WITH played AS (
    SELECT
        m.run, p.game_uid,
        CASE p.color WHEN 0 THEN m.player ELSE m.opponent END AS first_player,
        CASE p.color WHEN 0 THEN m.opponent ELSE m.player END AS second_player,
        m.kind AS played_for, p.at
    FROM matches AS m JOIN match_games AS p USING (match_id)
    -- A precision is no player of its own, and what it plays is not the version's strength.
    WHERE m.player !~ '/' AND m.opponent !~ '/'
)
SELECT
    p.run, p.game_uid, p.first_player, p.second_player, p.played_for, g.result,
    -- All others play the same position alike, so a game again tells nothing new.
    'random' NOT IN (p.first_player, p.second_player)
    AND row_number() OVER (
        PARTITION BY p.run, p.first_player, p.second_player, g.moves ORDER BY p.at, p.game_uid
    ) > 1 AS repeated
FROM played AS p JOIN games AS g USING (game_uid);
COMMENT ON VIEW rated_games IS
    'Every game between two players of a run, whatever for; those of a model in a named precision '
    'are left out. repeated: two players without chance had this very game before; it does not count '
    'twice.';

CREATE VIEW exam_results AS
SELECT
    run, version AS model, kind, num_simulations, positions, errors,
    round(100.0 * errors / positions, 2) AS error_percent,
    round(100.0 * prior_errors / positions, 2) AS prior_error_percent,
    round(value_error::numeric, 3) AS value_error,
    wins, draws, given_away, margin, even_komi, at
FROM exams;
COMMENT ON VIEW exam_results IS
    'What each exam of a model found: errors after the search beside those of the prior alone, the '
    'value''s mean square error, and how whole games ended.';

CREATE VIEW ratings_with_interval AS
SELECT
    run, player, version AS model,
    round(elo::numeric, 1) AS elo,
    round((elo - 1.959964 * elo_error)::numeric, 1) AS low,
    round((elo + 1.959964 * elo_error)::numeric, 1) AS high,
    games, at
FROM ratings;
COMMENT ON VIEW ratings_with_interval IS
    'Elo of models and anchors with its 95 % interval, relative to the oldest model that played.';
