-- rowlock: compatible
-- +goose Up
-- A claim is committed before the processor is called: its row holds what the payment needs. Replicas of earlier
-- releases leave these columns NULL, and commit no PROCESSING row.
ALTER TABLE payments.idempotency_records
    ADD COLUMN claim_id       uuid,
    ADD COLUMN claimed_until  timestamptz,
    ADD COLUMN processor_key  text COLLATE "C",
    ADD COLUMN ride_id        text COLLATE "C",
    ADD COLUMN rider_id       text COLLATE "C",
    ADD COLUMN amount         bigint,
    ADD COLUMN currency       text,
    ADD COLUMN card_brand     text,
    ADD COLUMN card_last4     text,
    ADD COLUMN card_exp_month smallint,
    ADD COLUMN card_exp_year  smallint;

-- +goose Down
ALTER TABLE payments.idempotency_records
    DROP COLUMN claim_id, DROP COLUMN claimed_until, DROP COLUMN processor_key, DROP COLUMN ride_id,
    DROP COLUMN rider_id, DROP COLUMN amount, DROP COLUMN currency, DROP COLUMN card_brand, DROP COLUMN card_last4,
    DROP COLUMN card_exp_month, DROP COLUMN card_exp_year;
