-- All rights of our roles. Other roles keep the rights that a person has granted them on tables and on
-- whole views. Functions, and columns of views, must be granted again after each migration that
-- recreates them.
DO $$
DECLARE
    ours regclass;
BEGIN
    FOR ours IN
        SELECT oid FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v')
            AND NOT relispartition AND pg_has_role(relowner, 'USAGE')
    LOOP
        EXECUTE format(
            'REVOKE ALL ON %s FROM zerofleet_worker, zerofleet_trainer, zerofleet_evaluator, '
            'zerofleet_console, zerofleet_visitor', ours
        );
        EXECUTE format('GRANT SELECT ON %s TO zerofleet_console, zerofleet_visitor', ours);
    END LOOP;
END
$$;

-- Needed by each service to start: the version of the schema, the run, its models.
GRANT SELECT ON alembic_version, definitions, runs, models, promotions
    TO zerofleet_worker, zerofleet_trainer, zerofleet_evaluator;
-- Workers read runs, and wait for one that is not registered yet.
GRANT EXECUTE ON FUNCTION register_run, acquire_fence TO zerofleet_trainer, zerofleet_evaluator;

-- Games. Workers hold no right on a table.
GRANT EXECUTE ON FUNCTION
    submit_games, save_unfinished, adopt_unfinished, reject_unfinished, extend_leases,
    release_unfinished
    TO zerofleet_worker;
GRANT EXECUTE ON FUNCTION positions_ahead TO zerofleet_worker;
GRANT EXECUTE ON FUNCTION restarts_of
    TO zerofleet_worker, zerofleet_trainer, zerofleet_console, zerofleet_visitor;
GRANT EXECUTE ON FUNCTION submit_games TO zerofleet_evaluator;
GRANT SELECT ON games TO zerofleet_trainer, zerofleet_evaluator;
GRANT SELECT ON positions, positions_default, origins TO zerofleet_trainer;
GRANT SELECT, INSERT ON unreadable_games, rejected_games TO zerofleet_trainer;
GRANT EXECUTE ON FUNCTION window_end TO zerofleet_trainer;
GRANT EXECUTE ON FUNCTION window_blocker TO zerofleet_trainer, zerofleet_console, zerofleet_visitor;

-- Retention of searches and models.
GRANT SELECT, INSERT, UPDATE ON position_needs TO zerofleet_trainer;
GRANT SELECT ON position_partitions TO zerofleet_trainer;
GRANT EXECUTE ON FUNCTION
    make_partitions, drop_partition, delete_old_positions, give_up_models, removable_files
    TO zerofleet_trainer;
GRANT EXECUTE ON FUNCTION positions_needed TO zerofleet_trainer;
GRANT EXECUTE ON FUNCTION first_game_uid, game_began, searches_per_day
    TO zerofleet_trainer, zerofleet_console, zerofleet_visitor;

-- Training.
GRANT INSERT ON models TO zerofleet_trainer;
GRANT SELECT, INSERT, UPDATE ON train_metrics, trainer_progress, restarts TO zerofleet_trainer;
GRANT SELECT, INSERT ON train_events TO zerofleet_trainer;
GRANT SELECT ON recent_play, training_warnings TO zerofleet_trainer;

-- Resignation.
GRANT SELECT, INSERT ON resign_thresholds TO zerofleet_trainer;
GRANT EXECUTE ON FUNCTION played_on_games, resign_curve TO zerofleet_trainer, zerofleet_console, zerofleet_visitor;
GRANT EXECUTE ON FUNCTION last_v_resign
    TO zerofleet_worker, zerofleet_trainer, zerofleet_console, zerofleet_visitor;

-- Matches, promotions, ratings.
GRANT SELECT ON fences TO zerofleet_evaluator;
GRANT SELECT, INSERT ON matches, match_games TO zerofleet_evaluator;
GRANT UPDATE (
    games, epoch, left_out, verdict, decided_by, decided_at, score, llr, games_counted, duplicates,
    pentanomial
) ON matches TO zerofleet_evaluator;
GRANT INSERT ON promotions TO zerofleet_evaluator;
GRANT SELECT, INSERT ON exams, ratings TO zerofleet_evaluator;
GRANT UPDATE (elo, elo_error, games, at) ON ratings TO zerofleet_evaluator;
GRANT SELECT ON rated_games TO zerofleet_evaluator;

-- Variants.
GRANT SELECT ON model_variants TO zerofleet_worker, zerofleet_trainer, zerofleet_evaluator;
GRANT INSERT ON model_variants TO zerofleet_trainer;
