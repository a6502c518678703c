-- rowlock: compatible
-- +goose NO TRANSACTION
-- +goose Up
-- For the search for claims that ran out, and their number. CONCURRENTLY, because the table has a day's payments; one
-- that was cut off leaves an index that is not valid.
DROP INDEX CONCURRENTLY IF EXISTS payments.idempotency_records_claimed_until;
CREATE INDEX CONCURRENTLY idempotency_records_claimed_until
    ON payments.idempotency_records (claimed_until) WHERE status = 'PROCESSING';

-- +goose Down
DROP INDEX CONCURRENTLY IF EXISTS payments.idempotency_records_claimed_until;
