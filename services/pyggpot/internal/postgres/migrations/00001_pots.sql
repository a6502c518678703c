-- rowlock: compatible
-- +goose Up
-- A pot. lock is the lease of the change that holds it, until lock_expire_time.
-- coins is the sum of the pot's coin_count: a constraint cannot look into other
-- rows, so the one statement that changes those changes this too, and the
-- constraint on it keeps a pot from holding less than nothing or more than fits.
-- No index has what a change writes, and the page has room, so a new version of a
-- row stays on its page and touches no index: the source's index (id, lock), which
-- no query uses, is left out for that. Each change writes the row twice, with
-- another lock each time, so its versions are many and short-lived: vacuum comes by
-- their number, not by their share.
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

-- The coins of a pot by kind.
CREATE TABLE pyggpot.coin (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pot_id       integer NOT NULL REFERENCES pyggpot.pot (id),
    denomination integer NOT NULL CHECK (denomination IN (1, 10, 100)),
    coin_count   integer NOT NULL CHECK (coin_count >= 0),
    CONSTRAINT coin_of_pot UNIQUE (pot_id, denomination)
) WITH (fillfactor = 50);

-- A slot proves the outcome of a group of changes, or of a new pot, whose answer was
-- lost (platform/groupcommit). A few rows are updated all the time: the free space
-- keeps a row's versions on its page.
CREATE TABLE pyggpot.slots (
    id      uuid PRIMARY KEY,
    attempt bigint NOT NULL,
    answers json,
    used_at timestamptz NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 0);

-- +goose Down
DROP TABLE pyggpot.slots;
DROP TABLE pyggpot.coin;
DROP TABLE pyggpot.pot;
