-- rowlock: compatible
-- +goose Up
-- Keys belong to their caller. The first caller's record of a key stands under the key itself, and so do those without
-- a caller; the record of another caller with the same key stands under its name, a line break and the key. Replicas
-- of earlier releases write no caller, and infer their conflicts from the primary key, which stays. The constraint is
-- wider than before and needs no validation.
ALTER TABLE payments.idempotency_records
    ADD COLUMN caller text COLLATE "C" NOT NULL DEFAULT '',
    DROP CONSTRAINT idempotency_records_key_check,
    ADD CONSTRAINT idempotency_records_key_check CHECK (octet_length(key) BETWEEN 1 AND 1024) NOT VALID;

-- +goose Down
-- The constraint stays wide: there may be rows that need it.
ALTER TABLE payments.idempotency_records DROP COLUMN caller;
