-- rowlock: compatible
-- +goose Up
-- The source allows no key, index, constraint, trigger, procedure, sequence or
-- auto-increment on the two tables. The one row of status is the highest id.
CREATE TABLE IF NOT EXISTS status (
    id bigint NOT NULL
) ENGINE = InnoDB;

-- +goose Down
DROP TABLE status;
