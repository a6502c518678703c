-- rowlock: compatible
-- +goose Up
-- The record of a caller's idempotency key; caller is empty where callers are not identified. The key comes first in the
-- index: a plan that is made while the table is empty may look it up by the key alone. Both are ordered by bytes
-- in every locale. A claim is committed before the processor is called, so the row holds what the payment needs. Half
-- of each page is left free: the row is written twice (PROCESSING, then COMPLETED), and the second version then stays on
-- its page. The body is json and not jsonb, because json keeps its bytes.
CREATE TABLE payments.idempotency_records (
    caller              text COLLATE "C" NOT NULL DEFAULT '',
    key                 text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
    status              text        NOT NULL CHECK (status IN ('PROCESSING', 'COMPLETED')),
    request_fingerprint bytea       NOT NULL CHECK (octet_length(request_fingerprint) = 32),
    fingerprint_version text        NOT NULL,
    claim_id            uuid        NOT NULL,
    claimed_until       timestamptz NOT NULL,
    processor_key       text COLLATE "C" NOT NULL,
    ride_id             text COLLATE "C" NOT NULL,
    rider_id            text COLLATE "C" NOT NULL,
    amount              bigint      NOT NULL,
    currency            text        NOT NULL,
    card_brand          text        NOT NULL,
    card_last4          text        NOT NULL,
    card_exp_month      smallint    NOT NULL,
    card_exp_year       smallint    NOT NULL,
    payment_id          uuid,
    response_status     smallint,
    response_body       json,
    expires_at          timestamptz NOT NULL,
    created_at          timestamptz NOT NULL,
    PRIMARY KEY (key, caller),
    CHECK (num_nulls(payment_id, response_status, response_body) = CASE status WHEN 'COMPLETED' THEN 0 ELSE 3 END)
) WITH (fillfactor = 50);

-- For the cleanup.
CREATE INDEX idempotency_records_expires_at ON payments.idempotency_records (expires_at);

-- For the search for claims that ran out, and their number.
CREATE INDEX idempotency_records_claimed_until ON payments.idempotency_records (claimed_until)
 WHERE status = 'PROCESSING';

-- A caller's key is not unique: one that has expired counts as new. processor_key is, so that no two payments share one
-- charge.
CREATE TABLE payments.payments (
    id              uuid PRIMARY KEY,
    caller          text COLLATE "C" NOT NULL DEFAULT '',
    idempotency_key text COLLATE "C" NOT NULL,
    processor_key   text COLLATE "C" NOT NULL UNIQUE,
    ride_id         text COLLATE "C" NOT NULL CHECK (octet_length(ride_id) BETWEEN 1 AND 64),
    rider_id        text COLLATE "C" NOT NULL CHECK (octet_length(rider_id) BETWEEN 1 AND 64),
    amount          bigint      NOT NULL CHECK (amount BETWEEN 1 AND 1000000000000),
    currency        text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    status          text        NOT NULL CHECK (status IN ('SUCCEEDED', 'DECLINED')),
    decline_code    text        CHECK ((decline_code IS NOT NULL) = (status = 'DECLINED')),
    card_brand      text        NOT NULL,
    card_last4      text        NOT NULL CHECK (card_last4 ~ '^[0-9]{4}$'),
    card_exp_month  smallint    NOT NULL CHECK (card_exp_month BETWEEN 1 AND 12),
    card_exp_year   smallint    NOT NULL,
    created_at      timestamptz NOT NULL
);

CREATE INDEX payments_idempotency_key ON payments.payments (idempotency_key, caller);
CREATE INDEX payments_ride ON payments.payments (ride_id, created_at DESC, id DESC);

-- The simulated processor's ledger: its definitive answer to each key, a charge or, with a decline_code, a decline. It
-- represents another company's system: it is written on a connection of its own, and nothing refers to it.
CREATE TABLE payments.processor_charges (
    processor_key       text COLLATE "C" PRIMARY KEY,
    amount              bigint      NOT NULL,
    currency            text        NOT NULL,
    card_fingerprint    bytea       NOT NULL CHECK (octet_length(card_fingerprint) = 32),
    ride_fingerprint    bytea       NOT NULL CHECK (octet_length(ride_fingerprint) = 32),
    fingerprint_version text        NOT NULL,
    decline_code        text,
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- For the search for charges without a payment.
CREATE INDEX processor_charges_created_at ON payments.processor_charges (created_at);

-- +goose Down
DROP TABLE payments.processor_charges;
DROP TABLE payments.payments;
DROP TABLE payments.idempotency_records;
