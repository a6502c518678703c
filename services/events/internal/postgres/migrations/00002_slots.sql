-- rowlock: compatible
-- +goose Up
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
