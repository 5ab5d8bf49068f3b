CREATE VIEW positions_on_disk AS
SELECT
    s.partition,
    s.since,
    s.until,
    greatest(c.reltuples, 0)::bigint AS positions,
    pg_total_relation_size(c.oid) AS bytes
FROM (
    SELECT partition, since, until FROM position_partitions
    UNION ALL
    SELECT 'positions_default', NULL, NULL
) AS s
JOIN pg_class AS c ON c.oid = to_regclass(s.partition::text);
COMMENT ON VIEW positions_on_disk IS
    'Stored searches, partition by partition, with their size on disk, indexes included. positions is '
    'Postgres'' own estimate.';
