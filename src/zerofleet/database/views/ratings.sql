CREATE VIEW rated_games AS
WITH played AS (
    SELECT
        m.run, p.game_uid,
        CASE p.color WHEN 0 THEN m.player ELSE m.opponent END AS first_player,
        CASE p.color WHEN 0 THEN m.opponent ELSE m.player END AS second_player,
        m.kind AS played_for, p.at
    FROM matches AS m JOIN match_games AS p USING (match_id)
    -- A precision is not a separate player, and its games do not show the version's strength.
    WHERE m.rated AND m.player !~ '^[0-9]+/' AND m.opponent !~ '^[0-9]+/'
)
SELECT
    p.run, p.game_uid, p.first_player, p.second_player, p.played_for, g.result,
    -- All others always play a position the same way, so a repeated game adds no information.
    'random' NOT IN (p.first_player, p.second_player)
    AND row_number() OVER (
        PARTITION BY p.run, p.first_player, p.second_player, g.start, g.moves ORDER BY p.at, p.game_uid
    ) > 1 AS repeated
FROM played AS p JOIN games AS g USING (game_uid);
COMMENT ON VIEW rated_games IS
    'Every game between two players of a run, in every kind of match. Left out are games of a model in a '
    'named precision, and of test matches with their own number of simulations. repeated: two '
    'deterministic players had the same game before; it does not count twice.';

CREATE VIEW exam_results AS
SELECT
    run, version AS model, kind, num_simulations, positions, errors,
    round(100.0 * errors / positions, 2) AS error_percent,
    round(100.0 * prior_errors / positions, 2) AS prior_error_percent,
    round(value_error::numeric, 3) AS value_error,
    wins, draws, given_away, margin, even_komi, at
FROM exams;
COMMENT ON VIEW exam_results IS
    'Results of each exam of a model: errors after the search and by the prior alone, the value''s mean '
    'squared error, and the results of whole games.';

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
