-- rowlock: compatible
-- +goose NO TRANSACTION
-- +goose Up
-- An owner's key has one row, although it may stand in two places. CONCURRENTLY, because the table has a key of each
-- request of the last minutes; one that was cut off leaves an index that is not valid. Keys without an owner are not
-- in it.
DROP INDEX CONCURRENTLY IF EXISTS counts.idempotency_keys_owner;
CREATE UNIQUE INDEX CONCURRENTLY idempotency_keys_owner ON counts.idempotency_keys (owner, key) WHERE owner <> '';

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS counts.idempotency_keys_owner;
