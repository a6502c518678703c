-- +goose NO TRANSACTION
-- +goose Up
-- A caller's key has one record, although it may stand in two places. CONCURRENTLY as in 00004; it has no row without a
-- caller.
DROP INDEX CONCURRENTLY IF EXISTS payments.idempotency_records_processor_key;
CREATE UNIQUE INDEX CONCURRENTLY idempotency_records_processor_key
    ON payments.idempotency_records (processor_key) WHERE caller <> '';

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS payments.idempotency_records_processor_key;
