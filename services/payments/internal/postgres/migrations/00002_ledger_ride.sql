-- rowlock: compatible
-- +goose Up
-- The ledger also compares ride and rider, by a digest of the version that the card's has.
-- It is NULL in entries of earlier releases, which match any ride. The constraint is not
-- validated: that would read the whole ledger under a lock, and all old rows are NULL.
ALTER TABLE payments.processor_charges
    ADD COLUMN ride_fingerprint bytea,
    ADD CONSTRAINT processor_charges_ride_fingerprint CHECK (octet_length(ride_fingerprint) = 32) NOT VALID;

-- +goose Down
ALTER TABLE payments.processor_charges DROP COLUMN ride_fingerprint;
