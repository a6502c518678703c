-- rowlock: compatible
-- +goose Up
-- A partition is no index: it says where a row lies. NULL is lower than every
-- value, so pending events lie in the partition pending; below it and below
-- processed a hash of the id makes a lookup read a 64th. docs/decisions/0007 has
-- the figures. DDL is not undone here: a crash after a statement and before the
-- line in the history must leave something that can be run again. MEMORY first, as
-- in 00001: MySQL gives no invisible key to a partitioned table, it refuses it.
CREATE TABLE IF NOT EXISTS events (
    id    bigint NOT NULL,
    value varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL
) ENGINE = MEMORY;
ALTER TABLE events ENGINE = InnoDB
  PARTITION BY RANGE COLUMNS (value)
  SUBPARTITION BY HASH (id) SUBPARTITIONS 64 (
    PARTITION pending VALUES LESS THAN (''),
    PARTITION processed VALUES LESS THAN (MAXVALUE)
  );

-- +goose Down
DROP TABLE events;
