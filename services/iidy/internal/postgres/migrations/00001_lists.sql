-- rowlock: compatible
-- +goose Up
-- The key is ordered byte by byte, so that every statement locks rows in one
-- order, and pages come in one order, whatever the database's locale is. Half of
-- each page is left free: an increment then stays on its page and touches no index
-- (a heap-only tuple), which halves what it costs.
--
-- There is no CHECK: the server parses one anew for each statement that changes a
-- row, and evaluates it for each row: 13 % of its work for a group of eight
-- increments. The domain checks lists and items before any statement, and each
-- statement sets claim and lease_until together.
CREATE TABLE iidy.lists (
    list        text   COLLATE "C" NOT NULL,
    item        text   COLLATE "C" NOT NULL,
    attempts    bigint NOT NULL DEFAULT 0,
    claim       uuid,
    lease_until timestamptz,
    CONSTRAINT lists_pkey PRIMARY KEY (list, item)
) WITH (fillfactor = 50);

-- For extend and release. What is not claimed is not in it, so adds do not pay
-- for it.
CREATE INDEX lists_claim ON iidy.lists (claim) WHERE claim IS NOT NULL;

-- For claims, so that one that finds nothing reads no claimed item: what is free, in
-- byte order, and the leases in the order of their ends. Adds pay for the first;
-- docs/decisions/0006-iidy-batches-and-claims.md says why. lease_until is in it for the
-- planner alone, which would otherwise consider the primary key equally good.
CREATE INDEX lists_free ON iidy.lists (list, lease_until, item) WHERE lease_until IS NULL;
CREATE INDEX lists_lease ON iidy.lists (list, lease_until) WHERE lease_until IS NOT NULL;

-- A slot proves the outcome of a change whose answer was lost (platform/groupcommit).
-- On a Citus cluster its place is a list of the shard, and else empty. A few rows are
-- updated all the time: the free space keeps a row's versions on its page.
CREATE TABLE iidy.slots (
    place   text   COLLATE "C" NOT NULL,
    id      uuid   NOT NULL,
    attempt bigint NOT NULL,
    answers json,
    used_at timestamptz NOT NULL,
    CONSTRAINT slots_pkey PRIMARY KEY (place, id)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);

-- +goose Down
DROP TABLE iidy.slots;
DROP TABLE iidy.lists;
