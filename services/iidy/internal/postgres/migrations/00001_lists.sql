-- rowlock: compatible
-- +goose Up
-- The key is ordered byte by byte, so that every statement locks rows in one
-- order, and pages come in one order, whatever the database's locale is. Half of
-- each page is left free: an increment then stays on its page and touches no index
-- (a heap-only tuple), which halves what it costs.
CREATE TABLE iidy.lists (
    list        text   COLLATE "C" NOT NULL,
    item        text   COLLATE "C" NOT NULL,
    attempts    bigint NOT NULL DEFAULT 0,
    claim       uuid,
    lease_until timestamptz,
    CONSTRAINT lists_pkey PRIMARY KEY (list, item),
    CONSTRAINT lists_length CHECK (octet_length(list) + octet_length(item) <= 2000),
    CONSTRAINT lists_lease CHECK ((claim IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 50);

-- For extend and release. What is not claimed is not in it, so adds do not pay
-- for it. There is no index of what is free: it would cost every add, and a
-- replica remembers instead where the free items of a list begin;
-- docs/decisions/0006-iidy-batches-and-claims.md has the figures.
CREATE INDEX lists_claim ON iidy.lists (claim) WHERE claim IS NOT NULL;

-- +goose Down
DROP TABLE iidy.lists;
