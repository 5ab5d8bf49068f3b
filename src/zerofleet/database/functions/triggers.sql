-- Replaced rather than dropped and made again: triggers hang on these functions, and stay.
CREATE OR REPLACE FUNCTION check_fence() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
BEGIN
    -- The lock makes a newer holder wait until this transaction is over.
    PERFORM FROM fences
    WHERE run = NEW.run AND role = TG_ARGV[0] AND epoch = NEW.epoch FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another % of the run % has taken over since epoch %',
            TG_ARGV[0], NEW.run, NEW.epoch USING ERRCODE = 'ZF001';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION check_fence IS 'Refuse a row that carries an epoch that is not the newest.';

CREATE OR REPLACE TRIGGER fenced BEFORE INSERT OR UPDATE ON models
    FOR EACH ROW EXECUTE FUNCTION check_fence('trainer');
CREATE OR REPLACE TRIGGER fenced BEFORE INSERT ON model_variants
    FOR EACH ROW EXECUTE FUNCTION check_fence('trainer');
CREATE OR REPLACE TRIGGER fenced BEFORE INSERT OR UPDATE ON matches
    FOR EACH ROW EXECUTE FUNCTION check_fence('evaluator');
CREATE OR REPLACE TRIGGER fenced BEFORE INSERT ON promotions
    FOR EACH ROW EXECUTE FUNCTION check_fence('evaluator');
-- The trainer's writes all name their epoch. The database's owner may take back needs without one.
CREATE OR REPLACE TRIGGER fenced BEFORE INSERT OR UPDATE OF epoch ON position_needs
    FOR EACH ROW EXECUTE FUNCTION check_fence('trainer');
CREATE OR REPLACE TRIGGER fenced BEFORE INSERT OR UPDATE ON train_metrics
    FOR EACH ROW EXECUTE FUNCTION check_fence('trainer');
CREATE OR REPLACE TRIGGER fenced BEFORE INSERT OR UPDATE ON trainer_progress
    FOR EACH ROW EXECUTE FUNCTION check_fence('trainer');
CREATE OR REPLACE TRIGGER fenced BEFORE INSERT OR UPDATE ON restarts
    FOR EACH ROW EXECUTE FUNCTION check_fence('trainer');
CREATE OR REPLACE TRIGGER fenced BEFORE INSERT ON train_events
    FOR EACH ROW EXECUTE FUNCTION check_fence('trainer');


CREATE OR REPLACE FUNCTION bound_version() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
DECLARE
    newest CONSTANT integer := coalesce((SELECT max(version) FROM models WHERE run = NEW.run), 0);
BEGIN
    IF NEW.version > newest + 1000 THEN
        RAISE EXCEPTION 'model version % of the run % is far above its newest, %: publish version %',
            NEW.version, NEW.run, newest, newest + 1 USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION bound_version IS
    'Refuse a version that leaves few for later models: a version is at most 1,000 above the newest.';

CREATE OR REPLACE TRIGGER bounded BEFORE INSERT ON models
    FOR EACH ROW EXECUTE FUNCTION bound_version();


CREATE OR REPLACE FUNCTION keep_files() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
DECLARE
    needed integer[];
    gone integer;
BEGIN
    IF TG_TABLE_NAME = 'promotions' THEN
        needed := ARRAY[NEW.version];
    ELSE  -- the generated columns have no value yet
        needed := ARRAY[
            substring(NEW.player FROM '^[0-9]+')::integer,
            substring(NEW.opponent FROM '^[0-9]+')::integer
        ];
    END IF;
    UPDATE models AS m SET removed_at = NULL, epoch = f.epoch
    FROM fences AS f
    WHERE f.run = NEW.run AND f.role = 'trainer' AND m.run = NEW.run AND m.version = ANY (needed)
        AND (m.removed_at > now() OR m.removed_at IS NOT NULL AND model_is_held(m.run, m.version));
    SELECT m.version INTO gone FROM models AS m
    WHERE m.run = NEW.run AND m.version = ANY (needed) AND m.removed_at IS NOT NULL;
    IF FOUND THEN
        RAISE EXCEPTION 'the files of model % of the run % are not kept any more', gone, NEW.run
            USING ERRCODE = 'ZF002';
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION keep_files IS
    'Keep the files of models that a match or a promotion begins to need; refuse it where a model was '
    'given up and its grace is over.';

CREATE OR REPLACE TRIGGER keep_files BEFORE INSERT ON promotions
    FOR EACH ROW EXECUTE FUNCTION keep_files();
CREATE OR REPLACE TRIGGER keep_files BEFORE INSERT ON matches
    FOR EACH ROW EXECUTE FUNCTION keep_files();


CREATE OR REPLACE FUNCTION never_by_console() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF session_user IN ('zerofleet_console', 'zerofleet_visitor') THEN
        RAISE EXCEPTION 'a session of % stores no games: log in as another role', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION never_by_console IS
    'The window does not wait for open transactions of the console and of visitors of the page, so none '
    'of them may store games.';

CREATE OR REPLACE TRIGGER never_by_console BEFORE INSERT OR UPDATE ON games
    FOR EACH STATEMENT EXECUTE FUNCTION never_by_console();


CREATE OR REPLACE FUNCTION bound_conflicts() RETURNS trigger
LANGUAGE plpgsql SET search_path = public, pg_temp
AS $$
DECLARE
    most_games CONSTANT bigint := 10000;
    most_bytes CONSTANT bigint := 1000000000;
    most_record_bytes CONSTANT integer := 16000000;
    kept_games bigint;
    kept_bytes bigint;
BEGIN
    DELETE FROM refused_games WHERE conflict_id IN (
        SELECT c.conflict_id FROM refused_games AS c
        WHERE c.at < now() - interval '90 days' ORDER BY c.at LIMIT 100
    );
    SELECT count(*), coalesce(sum(pg_column_size(c.record)), 0) INTO kept_games, kept_bytes
    FROM refused_games AS c;
    IF kept_games >= most_games OR kept_bytes >= most_bytes THEN
        RAISE WARNING 'a delivery of % is refused and not kept: refused_games is full',
            to_json(left(NEW.worker, 200));
        RETURN NULL;
    END IF;
    NEW.worker := left(NEW.worker, 200);
    NEW.reason := left(NEW.reason, 1000);
    IF octet_length(NEW.record::text) > most_record_bytes THEN
        NEW.record := json_build_object('left_out_bytes', octet_length(NEW.record::text));
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION bound_conflicts IS
    'Keep at most 10,000 refused deliveries and 1 GB of them, for 90 days, each with at most 16 MB.';

CREATE OR REPLACE TRIGGER bounded BEFORE INSERT ON refused_games
    FOR EACH ROW EXECUTE FUNCTION bound_conflicts();


CREATE OR REPLACE FUNCTION forbid_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% only grows: to go back to an earlier model, promote it again', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;
COMMENT ON FUNCTION forbid_change IS 'Keep a table append-only, for its owner too.';

CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON promotions
    FOR EACH STATEMENT EXECUTE FUNCTION forbid_change();


CREATE OR REPLACE FUNCTION forbid_rewriting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% only grows: what is written stays', TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;
COMMENT ON FUNCTION forbid_rewriting IS 'Keep a log append-only, for its owner too.';

CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON model_variants
    FOR EACH STATEMENT EXECUTE FUNCTION forbid_rewriting();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON train_events
    FOR EACH STATEMENT EXECUTE FUNCTION forbid_rewriting();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON resign_thresholds
    FOR EACH STATEMENT EXECUTE FUNCTION forbid_rewriting();
