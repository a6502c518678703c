-- rowlock: compatible
-- +goose Up
-- Keys belong to their caller. The first owner's row of a key has no caller in its primary key, and so have those that
-- were made without one; the row of another owner of the same key has it. Replicas of earlier releases write no owner,
-- and find what was done under a key of any owner.
ALTER TABLE counts.idempotency_keys ADD COLUMN owner text COLLATE "C" NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE counts.idempotency_keys DROP COLUMN owner;
