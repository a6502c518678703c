-- rowlock: compatible
-- +goose Up
-- One row for each group of changes and for each change that is not grouped, in the same commit as they: a replica
-- that lost the answer asks here what became of its statement. results holds what the statement has returned, NULL
-- for what it has not changed. A row without results belongs to a statement that was not applied and can no longer be.
CREATE TABLE counts.journal (
    id         uuid PRIMARY KEY,
    results    bigint[],
    expires_at timestamptz NOT NULL
) WITH (
    -- Up to 8 KB stay in the row: a group's results are written once and hardly ever read.
    toast_tuple_target = 8160,
    -- Rows come and go at the rate of the groups. The file keeps its size: shortening it would lock out writers.
    vacuum_truncate = off, autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.1, autovacuum_analyze_threshold = 10000
);
ALTER TABLE counts.journal ALTER COLUMN results SET STORAGE EXTERNAL; -- not compressed
CREATE INDEX journal_expires_at ON counts.journal (expires_at);

-- The requests that came with an Idempotency-Key. The answer lies in the journal: row group_id, from the place
-- position on; or it is the refusal, of the change refused_at. All keys of a group expire at one time, so that the
-- index stores it once.
CREATE TABLE counts.idempotency_keys (
    caller      text COLLATE "C" NOT NULL DEFAULT '',
    key         text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    fingerprint bytea       NOT NULL,
    group_id    uuid        NOT NULL,
    position    int         NOT NULL,
    refusal     text,
    refused_at  int,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (caller, key)
) WITH (
    vacuum_truncate = off, autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_insert_threshold = -1,
    autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.1, autovacuum_analyze_threshold = 10000
);
CREATE INDEX idempotency_keys_expires_at ON counts.idempotency_keys (expires_at);

-- +goose Down
DROP TABLE counts.idempotency_keys;
DROP TABLE counts.journal;
