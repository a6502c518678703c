-- rowlock: compatible
-- +goose Up
-- The key is ordered byte by byte, so that every statement locks rows in one
-- order whatever the database's locale is. Half of each page is left free: an
-- update then stays on its page and touches no index (a heap-only tuple). There
-- is no CHECK: the server parses it anew for each statement that changes a row,
-- which took a tenth of a single increase. The domain checks ids and keys.
CREATE TABLE counts.count_values (
    item_id         text COLLATE "C" PRIMARY KEY,
    current_value   bigint      NOT NULL DEFAULT 0,
    last_updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- The requests that came with an Idempotency-Key, and what they were answered. Rows
-- come and go at the rate of such requests. The file keeps its size: shortening it
-- would lock out writers. The key comes first in the index: a plan that was made while
-- the table was empty looks up the first column alone, and without AUTH all callers
-- are one.
CREATE TABLE counts.idempotency_keys (
    caller      text COLLATE "C" NOT NULL DEFAULT '',
    key         text COLLATE "C" NOT NULL,
    fingerprint bytea       NOT NULL,
    answer      json        NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (key, caller)
) WITH (
    vacuum_truncate = off, autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.1, autovacuum_analyze_threshold = 10000
);
CREATE INDEX idempotency_keys_expires_at ON counts.idempotency_keys (expires_at);

-- A slot proves the outcome of a group of changes whose answer was lost (platform/groupcommit). A few rows are updated
-- all the time: the free space keeps a row's versions on its page. On a Citus cluster the place is an item of the shard
-- that the slot is on; it is empty on one server.
CREATE TABLE counts.slots (
    place   text COLLATE "C" NOT NULL,
    id      uuid        NOT NULL,
    attempt bigint      NOT NULL,
    answers json,
    used_at timestamptz NOT NULL,
    PRIMARY KEY (place, id)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);

-- +goose Down
DROP TABLE counts.slots;
DROP TABLE counts.idempotency_keys;
DROP TABLE counts.count_values;
