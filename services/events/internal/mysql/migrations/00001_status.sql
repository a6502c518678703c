-- rowlock: compatible
-- +goose Up
-- The source allows no key, index, constraint, trigger, procedure, sequence or
-- auto-increment on the two tables. The one row of status is the highest id.
CREATE TABLE IF NOT EXISTS status (
    id bigint NOT NULL
) ENGINE = MEMORY;
-- MySQL with sql_generate_invisible_primary_key gives a table of InnoDB a key when
-- it is created, but not when it becomes one; setting the variable needs a privilege.
ALTER TABLE status ENGINE = InnoDB;

-- +goose Down
DROP TABLE status;
