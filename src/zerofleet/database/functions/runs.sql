CREATE FUNCTION register_run(in_name text, in_game text, in_config jsonb) RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    INSERT INTO runs (name, game, config) VALUES (in_name, in_game, in_config)
    ON CONFLICT (name) DO UPDATE SET config = excluded.config
        WHERE runs.game = excluded.game AND runs.config <> excluded.config;
    SELECT game FROM runs WHERE name = in_name;
END;
COMMENT ON FUNCTION register_run IS 'Make a run, or refresh its configuration; answers its game.';


CREATE FUNCTION acquire_fence(in_run text, in_role text, in_above bigint DEFAULT 0) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
DECLARE
    acquired bigint;
BEGIN
    IF session_user IN ('zerofleet_trainer', 'zerofleet_evaluator')
        AND session_user <> 'zerofleet_' || in_role THEN
        RAISE EXCEPTION '% cannot take over from the % of a run', session_user, in_role
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO fences (run, role, epoch) VALUES (in_run, in_role, in_above + 1)
    ON CONFLICT (run, role) DO UPDATE
        SET epoch = greatest(fences.epoch, in_above) + 1, acquired_at = now()
    RETURNING epoch INTO acquired;
    RETURN acquired;
END
$$;
COMMENT ON FUNCTION acquire_fence IS
    'Become the only trainer or evaluator whose writes are taken; the epoch is above in_above.';
