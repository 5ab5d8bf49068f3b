-- Which games a trainer may read, and what keeps it from the others.
--
-- games.tx is the number of the transaction that stored a game. A page of games ends below every
-- open transaction that may still store a game. Otherwise that transaction could commit below a page
-- that was already read, and its games would be skipped. Open transactions that cannot store a game
-- do not count, however long they stay open:
--   - transactions in another database: a session stays in the database that it logged in to;
--   - transactions of sessions that logged in as zerofleet_console or zerofleet_visitor: the trigger
--     never_by_console refuses their games, whatever they were granted.
-- The function looks this up after the statement's snapshot was taken. A transaction that it does not
-- find counts. It reads a session's entry and the transaction's number one after the other. Call it
-- in the first statement of a transaction, so that the two belong together.
CREATE FUNCTION window_end() RETURNS xid8
LANGUAGE sql STABLE
AS $$
    SELECT CASE
        WHEN pg_snapshot_xmin(pg_current_snapshot()) = pg_snapshot_xmax(pg_current_snapshot())
            THEN pg_snapshot_xmax(pg_current_snapshot())
        ELSE coalesce((
            SELECT min(open_tx) FROM pg_snapshot_xip(pg_current_snapshot()) AS open_tx
            WHERE NOT EXISTS (
                SELECT FROM pg_stat_activity AS a
                JOIN pg_database AS here ON here.datname = current_database()
                WHERE a.backend_xid = open_tx::xid
                    AND (a.datid <> here.oid OR a.usename IN ('zerofleet_console', 'zerofleet_visitor'))
            ) AND NOT EXISTS (
                SELECT FROM pg_prepared_xacts AS p
                WHERE p.transaction = open_tx::xid AND p.database <> current_database()
            )
        ), pg_snapshot_xmax(pg_current_snapshot()))
    END
$$;
COMMENT ON FUNCTION window_end IS
    'Games of lower tx are decided: a reader that goes on from the last of them skips none. Has to '
    'be in the statement that reads the games, so that both see the same moment.';


CREATE FUNCTION window_blocker(in_run text)
RETURNS TABLE (
    pid integer, role text, application text, since timestamptz, waits_for text,
    games bigint, waiting_seconds float8
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp
AS $$
    WITH here AS MATERIALIZED (
        SELECT window_end() AS tx
    ), waiting AS MATERIALIZED (
        SELECT count(*) AS games, extract(epoch FROM now() - min(ingested_at)) AS seconds
        FROM games WHERE run = in_run AND kind <> 'match' AND tx >= (SELECT tx FROM here)
    )
    SELECT
        a.pid, coalesce(a.usename, p.owner)::text,
        coalesce('prepared transaction ' || p.gid, a.application_name),
        coalesce(a.xact_start, p.prepared),
        CASE
            WHEN a.state = 'active' THEN coalesce(a.wait_event_type || ': ' || a.wait_event, 'its work')
            WHEN a.state IS NULL THEN NULL
            ELSE 'its client'
        END,
        w.games, w.seconds
    FROM here CROSS JOIN waiting AS w
    LEFT JOIN pg_stat_activity AS a ON a.backend_xid = here.tx::xid
    LEFT JOIN pg_prepared_xacts AS p ON p.transaction = here.tx::xid
    WHERE w.games > 0 AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
$$;
COMMENT ON FUNCTION window_blocker IS
    'The open transaction that keeps stored games from the trainer; no row while none does. Since '
    'when it is open and what it waits for are null where the owner may not see them (it may if it '
    'is in pg_read_all_stats).';


CREATE FUNCTION positions_ahead(in_run text, in_trained_share float8, in_enough float8)
RETURNS TABLE (positions float8, unread_positions float8, age_seconds float8)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
AS $$
DECLARE
    -- The trainer records its progress every two seconds, after it has looked for new games.
    read_before CONSTANT timestamptz := now() - interval '3 seconds';
    progress trainer_progress;
    game record;
BEGIN
    IF NOT EXISTS (SELECT FROM runs WHERE name = in_run) THEN
        RETURN;
    END IF;
    SELECT * INTO progress FROM trainer_progress WHERE run = in_run;
    positions := coalesce(progress.unspent_positions, 0);
    unread_positions := positions;
    age_seconds := extract(epoch FROM now() - progress.at);
    -- A run that learns from given games alone plays none, and one that still gets them none yet.
    IF EXISTS (SELECT FROM origins WHERE run = in_run AND (retrain OR finished_at IS NULL)) THEN
        positions := 'Infinity';
        unread_positions := 'Infinity';
        age_seconds := coalesce(age_seconds, 0);
        RETURN NEXT;
        RETURN;
    END IF;
    -- Workers ask often, so games are counted no further than the answer needs.
    FOR game IN
        SELECT g.length, g.ingested_at FROM games AS g
        WHERE g.run = in_run AND g.kind <> 'match' AND g.tx > coalesce(progress.tx, '0'::xid8)
        ORDER BY g.tx LIMIT 1000000
    LOOP
        EXIT WHEN unread_positions > in_enough;
        positions := positions + in_trained_share * game.length;
        IF game.ingested_at < read_before THEN
            unread_positions := unread_positions + in_trained_share * game.length;
        END IF;
    END LOOP;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION positions_ahead IS
    'Positions that the trainer of a run has not trained on: those that it has counted and not used, '
    'and this share of those stored since. unread_positions: without games so new that a trainer that '
    'works may have read them since it recorded its progress. Counting stops above in_enough. '
    'age_seconds: since the trainer recorded its progress; null: no trainer has. Infinity for a run that '
    'learns from given games alone, or still gets them: no game of its own is wanted.';
