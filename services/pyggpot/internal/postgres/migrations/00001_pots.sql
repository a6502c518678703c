-- rowlock: compatible
-- +goose Up
-- A pot. lock is the lease of the change that holds it, until lock_expire_time.
-- coins is the sum of the pot's coin_count: a constraint cannot look into other
-- rows, so the one statement that changes those changes this too, and the
-- constraint on it keeps a pot from holding less than nothing or more than fits.
-- Each change writes the row twice, with another lock each time, so its versions
-- are many and short-lived: vacuum comes by their number, not by their share.
CREATE TABLE pyggpot.pot (
    id               integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pot_name         text COLLATE "C" NOT NULL UNIQUE,
    max_coins        integer     NOT NULL CHECK (max_coins > 5),
    create_time      timestamptz NOT NULL DEFAULT clock_timestamp(),
    coins            integer     NOT NULL DEFAULT 0,
    lock             uuid,
    lock_expire_time timestamptz,
    CONSTRAINT pot_coins_fit CHECK (coins BETWEEN 0 AND max_coins),
    CONSTRAINT pot_lock_expires CHECK ((lock IS NULL) = (lock_expire_time IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

CREATE INDEX pot_lock ON pyggpot.pot (id, lock);

-- The coins of a pot by kind. No index has coin_count, and the page has room: a
-- new version of a row stays on its page and touches no index.
CREATE TABLE pyggpot.coin (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pot_id       integer NOT NULL REFERENCES pyggpot.pot (id),
    denomination integer NOT NULL CHECK (denomination IN (1, 10, 100)),
    coin_count   integer NOT NULL CHECK (coin_count >= 0),
    CONSTRAINT coin_of_pot UNIQUE (pot_id, denomination)
) WITH (fillfactor = 50);

-- +goose Down
DROP TABLE pyggpot.coin;
DROP TABLE pyggpot.pot;
