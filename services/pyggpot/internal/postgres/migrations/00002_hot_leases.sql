-- rowlock: compatible
-- +goose NO TRANSACTION
-- +goose Up
-- No query looks for a lock, and while an index has it each lease and each release is a new entry in every index of the
-- table. Without it they are HOT updates: fillfactor leaves room on the page. CONCURRENTLY, because replicas change pots.
DROP INDEX CONCURRENTLY IF EXISTS pyggpot.pot_lock;

-- +goose Down
CREATE INDEX CONCURRENTLY pot_lock ON pyggpot.pot (id, lock);
