CREATE FUNCTION restarts_of(in_run text) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp
BEGIN ATOMIC
    SELECT positions FROM restarts WHERE run = in_run;
END;
COMMENT ON FUNCTION restarts_of IS
    'Positions at which games of self-play restart, as in restarts.positions; null: none yet.';
