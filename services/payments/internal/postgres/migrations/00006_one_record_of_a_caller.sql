-- rowlock: compatible
-- +goose NO TRANSACTION
-- +goose Up
-- A caller's key has one record, although it may stand in two places: under the key, or under the caller, a line break
-- and the key. CONCURRENTLY as in 00004; records without a caller are not in it.
DROP INDEX CONCURRENTLY IF EXISTS payments.idempotency_records_of_caller;
CREATE UNIQUE INDEX CONCURRENTLY idempotency_records_of_caller
    ON payments.idempotency_records (caller, substr(key, strpos(key, E'\n') + 1)) WHERE caller <> '';

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS payments.idempotency_records_of_caller;
