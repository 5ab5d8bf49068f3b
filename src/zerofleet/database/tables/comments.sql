-- Comments on tables and columns. A migration sets them again when this file has changed.

COMMENT ON TABLE definitions IS
    'Version of the functions, views and rights of this database. It has one row, which `zerofleet '
    'migrate` writes. The version of the tables is in alembic_version.';
COMMENT ON COLUMN definitions.digest IS 'SHA-256 of the files that they were made from.';
COMMENT ON COLUMN definitions.version IS
    'Version of zerofleet that made them. An older version leaves them as they are.';
COMMENT ON COLUMN definitions.views IS 'Views that the next migration drops and makes again.';
COMMENT ON COLUMN definitions.functions IS
    'Functions that the next migration drops and makes again. Trigger functions are replaced instead.';

COMMENT ON TABLE exams IS
    'How often a model makes mistakes where perfect play is known, and how its games against GNU Go '
    'ended.';
COMMENT ON COLUMN exams.kind IS
    'lines: every line of play of a small game. random, good: positions of random play, or near good '
    'play. endgames, mates: positions of chess with three or four pieces, or with a forced mate. '
    'first:, second: whole games as that player against the solver, which plays evenly among its '
    'best actions or resists longest. won: games of chess from a won ending. gnugo:LEVEL: whole games '
    'against GNU Go.';
COMMENT ON COLUMN exams.positions IS 'Number of positions, or of games.';
COMMENT ON COLUMN exams.errors IS
    'Positions in which the action lost value. For whole games: games that ended worse than with '
    'perfect play, or that GNU Go won.';
COMMENT ON COLUMN exams.prior_errors IS
    'Errors of the network''s policy alone, without search; null: not measured.';
COMMENT ON COLUMN exams.value_error IS
    'Mean squared error of the searched value against perfect play; null: not known.';
COMMENT ON COLUMN exams.wins IS 'Games won; null if the exam has positions.';
COMMENT ON COLUMN exams.draws IS 'Games drawn; null if the exam has positions.';
COMMENT ON COLUMN exams.given_away IS 'Actions that lost value in games against the solver.';
COMMENT ON COLUMN exams.margin IS
    'Mean of the model''s area minus the opponent''s, without komi, in games against GNU Go.';
COMMENT ON COLUMN exams.even_komi IS
    'Points that the model would need instead of the komi to win half of its games against GNU Go.';
COMMENT ON COLUMN exams.wrong_answers IS
    'The first hundred positions with an error, in the game''s notation: the start position (empty: '
    'the usual start), the moves that lead there, the move played, and all moves that keep the '
    'outcome; null: not kept.';
COMMENT ON COLUMN exams.groups IS
    'Positions and errors by group: by material in endgames, by length in mates; null: no groups.';

COMMENT ON TABLE fences IS
    'Leader epochs of the writers. The newest epoch may write; rows with an older one are refused.';

COMMENT ON TABLE games IS 'Finished games, one row each. Rows never change; submit_games writes them.';
COMMENT ON COLUMN games.run IS 'Name of the run; submit_games checks it once for each batch.';
COMMENT ON COLUMN games.kind IS
    'selfplay: a game that the run played to learn from. match: a game of the evaluator. given: a game '
    'to learn from that the run did not play, copied from another run or read from a file: see origins.';
COMMENT ON COLUMN games.first_model IS
    'Model that chose the first player''s first action; 0: no model of this run.';
COMMENT ON COLUMN games.second_model IS 'Model that chose the second player''s first action.';
COMMENT ON COLUMN games.result IS
    '+1: the first player won (White in chess, Black in Go; see player_names). -1: the second player '
    'won. 0: a draw.';
COMMENT ON COLUMN games.reason IS
    'rules: the rules ended the game. resign: the player to move resigned and lost. adjudicated: the '
    'file of a given game names the result.';
COMMENT ON COLUMN games.length IS 'Length in plies.';
COMMENT ON COLUMN games.started_at IS 'Start by the worker''s clock, for people only.';
COMMENT ON COLUMN games.finished_at IS 'End by the worker''s clock, for people only.';
COMMENT ON COLUMN games.moves IS 'Actions in the game''s notation, separated by spaces.';
COMMENT ON COLUMN games.start IS
    'Position that the game begins at, in the game''s notation; empty: the usual start.';
COMMENT ON COLUMN games.content_sha256 IS
    'SHA-256 of the whole record, which two deliveries of one game have in common. A game copied from '
    'another run has the one that it has there.';
COMMENT ON COLUMN games.resign_threshold IS
    'Resignation threshold v_resign at the start of the game, for the player to move; null: no player '
    'could resign.';
COMMENT ON COLUMN games.plays_on IS
    'Whether no player may resign, so that v_resign can be computed from the game. Drawn at its start.';
COMMENT ON COLUMN games.began_at IS
    'Start by this server''s clock: when the game was stored, minus its duration by the worker''s '
    'clock. It puts games in the order of their start.';
COMMENT ON COLUMN games.tx IS
    'Transaction that stored the game. Read only rows with tx < window_end(): everything below is '
    'decided, so a reader that continues from the last tx skips no late commit.';
COMMENT ON COLUMN games.opening_plies IS
    'Plies at the start that no search chose in self-play: random ones, or moves that a forked or '
    'restarted game repeats. Null: a match, a game from a file, or a game stored before this '
    'column existed.';
COMMENT ON COLUMN games.restarted IS
    'Whether the game began with the moves to a position that an earlier game misjudged: see the table '
    'restarts. False in games stored before this column existed.';

COMMENT ON TABLE match_games IS
    'Games of a match: each opening twice, with colours swapped. A ply of a player that is not a '
    'model has model version 0.';
COMMENT ON COLUMN match_games.opening IS 'Number of the opening among the match''s seeded openings.';
COMMENT ON COLUMN match_games.color IS
    '0: matches.player is the first player of the game (White in chess, Black in Go; see player_names). '
    '1: it is the second player.';
COMMENT ON COLUMN match_games.score IS 'Score of matches.player: 1 won, 0.5 drawn, 0 lost.';
COMMENT ON COLUMN match_games.remark IS
    'Why an outside program lost before the rules ended the game; null in all other games.';

COMMENT ON TABLE matches IS
    'Games between two players of a run. The verdict follows from match_games alone.';
COMMENT ON COLUMN matches.kind IS
    'gate: a promotion match of a candidate against the best model of its time. rating: a promoted '
    'model against an earlier one or an anchor, once for each pair. trial: a test match that a person '
    'requested with `zerofleet match`; it decides nothing.';
COMMENT ON COLUMN matches.player IS
    'A model''s version (12), a version in one precision (12/int8), or an anchor: random, search (no '
    'network), gnugo:LEVEL, uci:PROGRAM?OPTION=VALUE, gtp:COMMAND, python:MODULE:CLASS. The candidate '
    'of a promotion match.';
COMMENT ON COLUMN matches.opponent IS
    'The opponent, written as player; in a promotion match, the model that was best.';
COMMENT ON COLUMN matches.player_version IS 'Version of a player that is a model.';
COMMENT ON COLUMN matches.opponent_version IS 'Version of an opponent that is a model.';
COMMENT ON COLUMN matches.openings IS
    'Opening book of a test match: a start position on each line. Null: the openings are drawn by the '
    'seed.';
COMMENT ON COLUMN matches.games IS
    'Games that the match has when it is over; with a sequential test, the most that it can have.';
COMMENT ON COLUMN matches.num_simulations IS
    'Simulations per move. Rating games follow the run file, so for them it is the number when the match '
    'began.';
COMMENT ON COLUMN matches.rated IS
    'Whether the games count for ratings. False for a test match with its own number of simulations.';
COMMENT ON COLUMN matches.seed IS 'Seed of the openings and of random choices.';
COMMENT ON COLUMN matches.epoch IS
    'Leader epoch of the evaluator that last wrote the row, or a game of the match.';
COMMENT ON COLUMN matches.left_out IS
    'Why the games of a test match have ended early; null: they have not. Requesting the match again '
    'tries it again.';
COMMENT ON COLUMN matches.threshold IS 'Score above which the candidate is promoted.';
COMMENT ON COLUMN matches.test IS
    'fixed: all games are played, and the threshold decides. sprt: a sequential test on pairs, which '
    'may end the match earlier.';
COMMENT ON COLUMN matches.sprt_elo0 IS
    'Logistic Elo of the candidate over the best model that leads to a rejection.';
COMMENT ON COLUMN matches.sprt_elo1 IS
    'Logistic Elo of the candidate over the best model that leads to a promotion.';
COMMENT ON COLUMN matches.sprt_error IS 'Probability of either wrong verdict of the sequential test.';
COMMENT ON COLUMN matches.draws_only IS
    'Verdict if every counted game was drawn; null: the threshold decides that case too.';
COMMENT ON COLUMN matches.verdict IS
    'promoted, rejected, or skipped because a later candidate was judged instead.';
COMMENT ON COLUMN matches.decided_by IS
    'sprt, threshold, draws_only; unusable: a model did not answer; newer_candidate; other_best: the '
    'best model has changed; other_openings: the run file has no longer enough of its openings.';
COMMENT ON COLUMN matches.score IS 'Mean score of the candidate over the counted games.';
COMMENT ON COLUMN matches.llr IS
    'Log-likelihood ratio of sprt_elo1 against sprt_elo0 when the match was decided.';
COMMENT ON COLUMN matches.games_counted IS
    'Games that the verdict rests on: complete pairs from the first opening on, without duplicates, up '
    'to the end of a sequential test.';
COMMENT ON COLUMN matches.duplicates IS
    'Games left out as duplicates: both games of the pair repeat, move by move, games of an earlier '
    'pair in which the candidate had the same colour.';
COMMENT ON COLUMN matches.pentanomial IS
    'Counted pairs in which the candidate scored 0, 0.5, 1, 1.5 and 2 points.';

COMMENT ON TABLE model_variants IS
    'Models in other precisions than fp32, written with the model''s row and never changed. A refused '
    'variant has no file.';
COMMENT ON COLUMN model_variants.precision IS 'int8: quantized, for CPUs. fp16: for GPUs.';
COMMENT ON COLUMN model_variants.sha256 IS 'SHA-256 and name of the variant''s file; null: refused.';
COMMENT ON COLUMN model_variants.location IS 'Place of the file, as in models; null: refused.';
COMMENT ON COLUMN model_variants.policy_kl IS
    'KL divergence of the variant''s policy from fp32, in nats, mean over the positions of the check; '
    'null: it could not be measured.';
COMMENT ON COLUMN model_variants.value_difference IS
    'Absolute difference of the value from fp32, mean over the same positions; null: it could not be '
    'measured.';
COMMENT ON COLUMN model_variants.accepted IS
    'Whether both measurements were within the bounds of the run file.';
COMMENT ON COLUMN model_variants.reason IS 'Why the variant was refused; empty: it was accepted.';
COMMENT ON COLUMN model_variants.epoch IS 'Leader epoch of the trainer that wrote the row.';

COMMENT ON TABLE models IS
    'Published models. A model''s file is stored, loaded and checked before its row is written.';
COMMENT ON COLUMN models.sha256 IS 'SHA-256 and name of the model file.';
COMMENT ON COLUMN models.step IS 'Training steps that the weights have seen.';
COMMENT ON COLUMN models.location IS
    'Place of the file: a path relative to the model folder, or a URL.';
COMMENT ON COLUMN models.epoch IS 'Leader epoch of the trainer that last wrote the row.';
COMMENT ON COLUMN models.removed_at IS
    'Time after which [retention] may have removed the files of the model and its variants; null: they '
    'are kept.';

COMMENT ON TABLE origins IS
    'Where the given games of a run come from: games that it learns from and did not play. `zerofleet '
    'fork` and `zerofleet import` write a row. No statistic of self-play counts these games.';
COMMENT ON COLUMN origins.kind IS
    'fork: copied from another run, with their searches. import: read from files; the policy target is '
    'the move played, and the value target is the result.';
COMMENT ON COLUMN origins.source IS 'Name of the other run; or the files.';
COMMENT ON COLUMN origins.place IS 'Data folder or database of the other run; or the folder of the files.';
COMMENT ON COLUMN origins.source_id IS
    'Tells whether a repeated command has the same source: when the other run began, or the SHA-256 of '
    'the files.';
COMMENT ON COLUMN origins.first_game IS
    'First game of the other run''s window that was chosen, by its uid there; null: an import.';
COMMENT ON COLUMN origins.last_game IS 'Last game of that window; null: an import.';
COMMENT ON COLUMN origins.first_at IS 'When the first game was stored there.';
COMMENT ON COLUMN origins.last_at IS 'When the last game was stored there.';
COMMENT ON COLUMN origins.chosen IS 'Games of the window or of the files, before any was left out.';
COMMENT ON COLUMN origins.games IS 'Games copied or imported so far.';
COMMENT ON COLUMN origins.positions IS 'Positions to train on in these games.';
COMMENT ON COLUMN origins.left_out IS
    'Games left out: their searches were dropped before, or they do not replay.';
COMMENT ON COLUMN origins.retrain IS 'Whether the run learns from these games alone and plays none.';
COMMENT ON COLUMN origins.next_tx IS
    'Transaction of the other run''s games up to which all are copied, written together with them.';
COMMENT ON COLUMN origins.last_tx IS 'Transaction of the last game to copy.';
COMMENT ON COLUMN origins.finished_at IS
    'When all games were there; null: not yet. The trainer waits for it.';

COMMENT ON TABLE partition_tries IS
    'One row: when make_partitions last ran. A submission does not run it again for a minute.';

COMMENT ON TABLE position_needs IS
    'Which searches each run still needs, as its trainer last reported. A partition is dropped when no '
    'run that has games needs any of it. A run without a row needs everything once it has had a '
    'trainer, on its first day, and with given games until the disk limit is reached.';
COMMENT ON COLUMN position_needs.since IS
    'Searches of games that began and were stored before this time may be dropped; -infinity: none '
    'may, infinity: all may.';
COMMENT ON COLUMN position_needs.epoch IS 'Leader epoch of the trainer that wrote the row.';
COMMENT ON COLUMN position_needs.at IS
    'Time of the last report; it is long ago if the run was abandoned.';
COMMENT ON COLUMN position_needs.limit_since IS
    'At the disk limit, searches of games that began and were stored before this time may be dropped; '
    'null: the run has no limit, and since applies.';
COMMENT ON COLUMN position_needs.limit_warning IS
    'Why the run uses more disk than [retention] max_disk_gb, for people; null: it does not.';
COMMENT ON COLUMN position_needs.limit_warned_at IS 'Time at which that began.';

COMMENT ON TABLE position_partitions IS
    'Partitions of positions. Each holds the searches of games that began in one period, and is '
    'dropped as a whole. Searches outside every period are in positions_default.';
COMMENT ON COLUMN position_partitions.since IS
    'Start of the period, compared with the time in a game''s uid, which follows this server''s clock.';
COMMENT ON COLUMN position_partitions.until IS 'End of the period, which does not belong to it.';

COMMENT ON TABLE positions IS
    'One row for each ply of each game, with the search that chose the action. submit_games, the only '
    'writer, stores it in the transaction of its game, so no foreign key checks it again. The table is '
    'partitioned by the start of the game, which its uid tells, so that old searches can be dropped '
    'while games stay: see position_partitions.';
COMMENT ON TABLE positions_default IS
    'Positions that belong to no partition: the uid of their game is no UUIDv7, or of another time.';
COMMENT ON COLUMN positions.ply IS 'Actions played before it; 0 is the start of the game.';
COMMENT ON COLUMN positions.action IS 'Action that was played.';
COMMENT ON COLUMN positions.to_play IS
    '0: the first player moves (White in chess, Black in Go; see player_names). 1: the second player '
    'moves.';
COMMENT ON COLUMN positions.model_version IS 'Model that searched the position.';
COMMENT ON COLUMN positions.root_value IS 'Value after search, in [-1, 1], for the player to move.';
COMMENT ON COLUMN positions.network_value IS
    'Value of the network alone, in [-1, 1], for the player to move.';
COMMENT ON COLUMN positions.best_child_value IS
    'Value of the child that would be played without a temperature, in [-1, 1], for the player to move '
    'in this position.';
COMMENT ON COLUMN positions.simulations IS
    'Visits of the root, including visits kept from the tree of the move before.';
COMMENT ON COLUMN positions.full_search IS 'Whether the search may become a training target.';
COMMENT ON COLUMN positions.legal_actions IS
    'Legal actions in ascending order, which visit_counts, priors and policy_weights follow. After a '
    'fast search (full_search is false), only the visited ones.';
COMMENT ON COLUMN positions.visit_counts IS 'Visits of each action in this search.';
COMMENT ON COLUMN positions.priors IS 'The network''s probability of each action, without noise.';
COMMENT ON COLUMN positions.policy_weights IS
    'Training target of each action, up to scale; null: the visit counts are the target.';

COMMENT ON TABLE promotions IS
    'Which model was best, when and why: a chain that only grows. Two writers that saw the same end of '
    'the chain collide on seq, so only one of them wins. The pointer in Redis is a copy of its end.';
COMMENT ON COLUMN promotions.prev_seq IS
    'End of the chain that the writer saw; null for the first promotion.';
COMMENT ON COLUMN promotions.match_id IS 'Match that decided the promotion; null if none was played.';
COMMENT ON COLUMN promotions.actor IS 'Who wrote it: an evaluator, or a person.';

COMMENT ON TABLE ratings IS
    'Elo of each model and anchor, from all games between two of them. Rows are replaced as games come '
    'in. The oldest model that played is fixed at 0 Elo.';
COMMENT ON COLUMN ratings.player IS
    'A model or an anchor, written as in matches, but without a precision.';
COMMENT ON COLUMN ratings.version IS 'Version of a player that is a model.';
COMMENT ON COLUMN ratings.elo_error IS
    'Standard error; 1.96 times this is half of the 95 % interval.';

COMMENT ON TABLE refused_games IS
    'Deliveries that were not stored: another worker had adopted the game, its uid belongs to another '
    'record, or the record contradicts itself. Each refused record has one row, however often it came. '
    'Unfinished games that were refused or could not continue have no content_sha256. The table keeps '
    'at most 10,000 rows and 1 GB, for 90 days, and drops new rows while it is full.';
COMMENT ON COLUMN refused_games.record IS 'The record as it was delivered.';

COMMENT ON TABLE resign_thresholds IS
    'Resignation thresholds (v_resign) over time, a log that only grows. New games use the newest row '
    'of their run.';
COMMENT ON COLUMN resign_thresholds.threshold IS
    'The player to move resigns when the values of the root and of its best child are both below this; '
    'null: no player resigns.';
COMMENT ON COLUMN resign_thresholds.games IS
    'Games without resignation from which the threshold was computed.';
COMMENT ON COLUMN resign_thresholds.would_resign IS 'Games among them that it would have ended.';
COMMENT ON COLUMN resign_thresholds.wrong IS
    'Games among these that the resigning player did not lose.';
COMMENT ON COLUMN resign_thresholds.false_positive_share IS
    'Requested limit of (wrong + 1) / (would_resign + 1).';
COMMENT ON COLUMN resign_thresholds.min_games IS
    'Requested minimum of games; with fewer there is no threshold.';
COMMENT ON COLUMN resign_thresholds.window_games IS 'Requested maximum of games.';
COMMENT ON COLUMN resign_thresholds.highest IS
    'Requested maximum of the threshold, whatever the games say.';
COMMENT ON COLUMN resign_thresholds.began_before IS
    'Games that began later were left out, because others that began with them may still be in play.';

COMMENT ON TABLE restarts IS
    'Positions at which a share of the games of self-play begins (selfplay.restart_share): where the '
    'player was most wrong. One row for each run, which the trainer replaces every minute.';
COMMENT ON COLUMN restarts.run IS 'Name of the run.';
COMMENT ON COLUMN restarts.positions IS
    'A list of objects, the largest regret first. actions: the action numbers from the usual start. '
    'regret: mean squared difference of value and result from there to the end of the game.';
COMMENT ON COLUMN restarts.epoch IS 'Leader epoch of the trainer that wrote the row.';
COMMENT ON COLUMN restarts.at IS 'Time of the row, by this server''s clock.';

COMMENT ON TABLE runs IS 'Training runs. Everything else belongs to a run.';
COMMENT ON COLUMN runs.config IS 'The run file as it was last registered.';

COMMENT ON TABLE train_events IS
    'Events of a run''s training, a log that only grows. A resumed trainer that repeats a step finds '
    'its event written.';
COMMENT ON COLUMN train_events.step IS 'Training steps taken at the event.';
COMMENT ON COLUMN train_events.event IS 'overfit_begins, overfit_ends, narrow_begins or narrow_ends.';
COMMENT ON COLUMN train_events.detail IS 'Description with figures, for people.';
COMMENT ON COLUMN train_events.epoch IS 'Leader epoch of the trainer that wrote the row.';

COMMENT ON TABLE train_metrics IS
    'Losses on training games and on the validation set. A resumed trainer repeats the steps after its '
    'checkpoint and replaces their rows.';
COMMENT ON COLUMN train_metrics.run IS 'Name of the run.';
COMMENT ON COLUMN train_metrics.step IS 'Training steps taken at the measurement.';
COMMENT ON COLUMN train_metrics.split IS
    'train: games that the trainer learns from. held_out: the validation set, which it never sees.';
COMMENT ON COLUMN train_metrics.policy_loss IS 'Cross-entropy against the search''s policy, in nats.';
COMMENT ON COLUMN train_metrics.value_loss IS 'Squared error against the game''s result.';
COMMENT ON COLUMN train_metrics.total_loss IS
    'Sum of both losses and the penalty on the weights.';
COMMENT ON COLUMN train_metrics.positions IS 'Positions that this row is the mean of.';
COMMENT ON COLUMN train_metrics.target_entropy IS
    'Entropy of the search''s policy, in nats: the lower bound of policy_loss.';
COMMENT ON COLUMN train_metrics.policy_entropy IS 'Entropy of the network''s policy, in nats.';
COMMENT ON COLUMN train_metrics.policy_agreement IS
    'Share of positions in which network and search prefer the same action.';
COMMENT ON COLUMN train_metrics.learning_rate IS 'Learning rate of the step.';
COMMENT ON COLUMN train_metrics.samples IS
    'Positions drawn for training since the start of the run.';
COMMENT ON COLUMN train_metrics.window_positions IS
    'Positions in the window, without the validation set.';
COMMENT ON COLUMN train_metrics.window_games IS 'Games in the window, without the validation set.';
COMMENT ON COLUMN train_metrics.samples_per_position IS 'Samples drawn for each position received.';
COMMENT ON COLUMN train_metrics.policy_error IS
    'Standard error of policy_loss, with the positions of one game counted as one; null: they are all '
    'of one game.';
COMMENT ON COLUMN train_metrics.value_error IS
    'Standard error of value_loss, with the positions of one game counted as one; null: they are all '
    'of one game.';
COMMENT ON COLUMN train_metrics.search_kl IS
    'KL divergence of the network''s policy from the search''s, in nats: policy_loss above its lower '
    'bound.';
COMMENT ON COLUMN train_metrics.explained_variance IS
    '1 - value_loss / variance of the results: 1 is perfect, 0 is no better than their mean; null: all '
    'results were the same.';
COMMENT ON COLUMN train_metrics.value_bias IS
    'Mean of value - result; above 0, the network is too optimistic for the player to move.';
COMMENT ON COLUMN train_metrics.distinct_share IS
    'Share of distinct positions among the drawn ones, before symmetries.';
COMMENT ON COLUMN train_metrics.age_games IS
    'Mean age of the drawn positions, in games that have joined the split since.';
COMMENT ON COLUMN train_metrics.gradient_norm IS
    'Euclidean norm of the last step''s gradient of all losses, without the penalty on the weights.';
COMMENT ON COLUMN train_metrics.soft_policy_loss IS
    'Soft policy loss of the last step''s batch (the first process'' share), in nats; null: the head '
    'has no weight.';
COMMENT ON COLUMN train_metrics.opponent_policy_loss IS
    'Opponent policy loss of the last step''s batch (the first process'' share), in nats; null: the '
    'head has no weight.';
COMMENT ON COLUMN train_metrics.final_planes_loss IS
    'Final planes loss of the same batch, mean over the points, in nats; null: the head has no weight.';
COMMENT ON COLUMN train_metrics.final_score_loss IS
    'Huber loss of the final lead in the same batch, in sides of the board; null: the head has no '
    'weight.';
COMMENT ON COLUMN train_metrics.own_losses IS
    'Losses of a network of your own on the same batch, by name; null: it has none.';
COMMENT ON COLUMN train_metrics.window_limit IS
    'Maximum of positions in the window at that time.';
COMMENT ON COLUMN train_metrics.policy_gap IS
    'Validation policy_loss minus training policy_loss, smoothed; null: too few validation games.';
COMMENT ON COLUMN train_metrics.value_gap IS
    'Validation value_loss minus training value_loss, smoothed; null: too few validation games.';
COMMENT ON COLUMN train_metrics.overfit IS
    'Whether the overfit watch slowed training down, or would have with [overfit] action = "off".';
COMMENT ON COLUMN train_metrics.calibration IS
    'For each quarter of the game (stage 1 to 4): positions, mean predicted value, mean result, mean '
    'squared error, for the player to move. See value_by_stage.';
COMMENT ON COLUMN train_metrics.epoch IS 'Leader epoch of the trainer that wrote the row.';
COMMENT ON COLUMN train_metrics.at IS 'Time of the row, by this server''s clock.';

COMMENT ON TABLE trainer_progress IS
    'Progress of each run''s trainer, written every two seconds. Self-play keeps pace with it.';
COMMENT ON COLUMN trainer_progress.run IS 'Name of the run.';
COMMENT ON COLUMN trainer_progress.unspent_positions IS
    'Positions whose samples the trainer has not drawn yet.';
COMMENT ON COLUMN trainer_progress.tx IS
    'Games up to this transaction are counted in unspent_positions.';
COMMENT ON COLUMN trainer_progress.epoch IS 'Leader epoch of the trainer that wrote the row.';
COMMENT ON COLUMN trainer_progress.at IS 'Time of the row, by this server''s clock.';

COMMENT ON TABLE unfinished_games IS
    'Games in play, saved from time to time. When a worker is silent past its lease, another worker '
    'adopts its games.';
COMMENT ON COLUMN unfinished_games.epoch IS
    'Adoptions so far; a write with an older epoch is refused.';
COMMENT ON COLUMN unfinished_games.ply IS 'Plies played when the game was saved.';
COMMENT ON COLUMN unfinished_games.record IS
    'The game_record as JSON, as it was delivered and checked by save_unfinished.';

COMMENT ON TABLE unreadable_games IS
    'Stored games that the trainer does not learn from: it could not read them, or they did not '
    'replay.';
