CREATE FUNCTION retention_number(in_config jsonb, in_key text) RETURNS numeric
LANGUAGE sql IMMUTABLE
RETURN CASE jsonb_typeof(in_config -> 'retention' -> in_key)
    WHEN 'number' THEN (in_config -> 'retention' ->> in_key)::numeric
END;
COMMENT ON FUNCTION retention_number IS
    'A number of [retention] in a stored configuration; null: there is none, or it is no number.';


CREATE FUNCTION run_fault(in_name text, in_game text, in_config jsonb) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN in_name IS NULL OR char_length(in_name) NOT BETWEEN 1 AND 48
        THEN 'its name is empty or longer than 48 characters'
    WHEN regexp_replace(in_name, '[A-Za-z0-9_-]', '', 'g') ~ '[\u0001-\u007f]'
        THEN 'its name has other characters than letters, digits, "-" and "_"'
    WHEN in_game IS NULL OR char_length(in_game) NOT BETWEEN 1 AND 256
        THEN 'the name of its game is empty or longer than 256 characters'
    WHEN in_game ~ '[\u0001-\u001f\u007f]' THEN 'the name of its game has control characters'
    WHEN coalesce(jsonb_typeof(in_config) <> 'object', true) THEN 'its configuration is no object'
    WHEN octet_length(in_config::text) > 100000 THEN 'its configuration is larger than 100 kB'
    WHEN coalesce(jsonb_typeof(in_config -> 'retention'), 'null') NOT IN ('object', 'null')
        THEN 'retention is no section'
    WHEN coalesce(jsonb_typeof(in_config #> '{retention,partition_hours}'), 'null') <> 'null'
        AND coalesce(
            retention_number(in_config, 'partition_hours') NOT BETWEEN 1 AND 8760
                OR scale(trim_scale(retention_number(in_config, 'partition_hours'))) > 0,
            true
        )
        THEN 'retention.partition_hours is no integer from 1 to 8760'
    WHEN coalesce(jsonb_typeof(in_config #> '{retention,max_disk_gb}'), 'null') <> 'null'
        AND coalesce(retention_number(in_config, 'max_disk_gb') NOT BETWEEN 0 AND 1e9, true)
        THEN 'retention.max_disk_gb is no number from 0 to 1e9'
    WHEN coalesce(jsonb_typeof(in_config #> '{retention,forget}'), 'null') NOT IN ('boolean', 'null')
        THEN 'retention.forget is neither true nor false'
END;
COMMENT ON FUNCTION run_fault IS
    'What is wrong with a run for the functions that read its row; null: nothing. The run file is '
    'checked in full before it comes here.';


CREATE FUNCTION register_run(in_name text, in_game text, in_config jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
AS $$
DECLARE
    fault CONSTANT text := run_fault(in_name, in_game, in_config);
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION 'the run % cannot be registered: %', to_json(left(in_name, 48)), fault
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO runs (name, game, config) VALUES (in_name, in_game, in_config)
    ON CONFLICT (name) DO UPDATE SET config = excluded.config
        WHERE runs.game = excluded.game AND runs.config <> excluded.config;
    RETURN (SELECT game FROM runs WHERE name = in_name);
END
$$;
COMMENT ON FUNCTION register_run IS
    'Make a run, or refresh its configuration; answers its game. For the trainer, the evaluator and '
    'zerofleet up.';


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
    -- Epochs count starts, and the next one is above each. Near the largest integer none would follow.
    IF coalesce(in_above NOT BETWEEN 0 AND 1000000000000000, true) THEN
        RAISE EXCEPTION 'epoch % of the % of the run % is no number from 0 to 10^15: remove the '
            'checkpoints that name it', in_above, in_role, in_run
            USING ERRCODE = 'invalid_parameter_value';
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
