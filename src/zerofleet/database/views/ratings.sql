CREATE VIEW rated_games AS
WITH played AS (
    SELECT
        m.run, p.game_uid,
        CASE p.candidate_color WHEN 0 THEN m.candidate ELSE m.best END::text AS first_player,
        CASE p.candidate_color WHEN 0 THEN m.best ELSE m.candidate END::text AS second_player,
        'match' AS played_for, p.at
    FROM matches AS m JOIN match_games AS p USING (match_id)
    UNION ALL
    SELECT run, game_uid, first_player, second_player, 'rating', at FROM rating_games
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
    'Every game between two players of a run, for a gate or for a rating. repeated: two players '
    'without chance had this very game before; it does not count twice.';

CREATE VIEW ratings_with_interval AS
WITH rated AS (
    SELECT run, version::text AS player, version AS model, elo, elo_error, games, at FROM ratings
    UNION ALL
    SELECT run, anchor, NULL, elo, elo_error, games, at FROM anchor_ratings
)
SELECT
    run, player, model,
    round(elo::numeric, 1) AS elo,
    round((elo - 1.959964 * elo_error)::numeric, 1) AS low,
    round((elo + 1.959964 * elo_error)::numeric, 1) AS high,
    games, at
FROM rated;
COMMENT ON VIEW ratings_with_interval IS
    'Elo of models and anchors with its 95 % interval, relative to the oldest model that played.';
