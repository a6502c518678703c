-- rowlock: compatible
-- +goose Up
-- The source allows no key, index, constraint, trigger, procedure or sequence on
-- these two tables. A partition is none of these: it says where a row lies.
--
-- The one row of status is the highest id. It is updated in place for every
-- group of new events: the free space keeps that on one page.
CREATE TABLE events.status (
    id bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);

INSERT INTO events.status (id) VALUES (0);

-- Pending events lie apart from the processed ones, so that claiming them costs
-- the same however many there are; processed ones lie in 32 heaps by a hash of
-- their id, so that looking one up reads a 32nd of them. docs/decisions/0007 has
-- the figures.
CREATE TABLE events.events (
    id    bigint NOT NULL,
    value varchar(255)
) PARTITION BY LIST ((value IS NULL));

-- What a worker has finished is deleted here: vacuum has to keep up.
CREATE TABLE events.events_pending PARTITION OF events.events FOR VALUES IN (true)
  WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 10000);

CREATE TABLE events.events_processed PARTITION OF events.events FOR VALUES IN (false)
  PARTITION BY HASH (id);

-- +goose StatementBegin
DO $$
BEGIN
    FOR part IN 0..31 LOOP
        EXECUTE format('CREATE TABLE events.events_processed_%s PARTITION OF events.events_processed '
                       'FOR VALUES WITH (MODULUS 32, REMAINDER %s)', lpad(part::text, 2, '0'), part);
    END LOOP;
END
$$;

-- Without a key an UPDATE or DELETE of a published table fails (55000), and tools for backups, upgrades and change
-- capture publish all tables. The old row goes into the WAL only where wal_level is logical.
DO $$
DECLARE
    part regclass;
BEGIN
    ALTER TABLE events.status REPLICA IDENTITY FULL;
    FOR part IN SELECT relid FROM pg_partition_tree('events.events') LOOP
        EXECUTE format('ALTER TABLE %s REPLICA IDENTITY FULL', part);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- A slot proves the outcome of a group of new events whose answer was lost (platform/groupcommit). It needs a key, which
-- nothing in schema events may have, so it is beside the history of the migrations. A few rows are updated all the time:
-- the free space keeps a row's versions on its page.
CREATE TABLE events_meta.slots (
    id      uuid PRIMARY KEY,
    attempt bigint NOT NULL,
    answers json,
    used_at timestamptz NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);

-- +goose Down
DROP TABLE events_meta.slots;
DROP TABLE events.events;
DROP TABLE events.status;
