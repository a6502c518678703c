-- rowlock: compatible
-- +goose Up
-- A migration of its own: without DDL it is one transaction with its line in the
-- history, so it happens once when several processes migrate.
INSERT INTO status (id) VALUES (0);

-- +goose Down
DELETE FROM status;
