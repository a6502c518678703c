-- rowlock: compatible
-- +goose Up
-- The key is ordered byte by byte, so that every statement locks rows in one
-- order whatever the database's locale is. Half of each page is left free: an
-- update then stays on its page and touches no index (a heap-only tuple).
CREATE TABLE counts.count_values (
    item_id         text COLLATE "C" PRIMARY KEY CHECK (octet_length(item_id) BETWEEN 1 AND 255),
    current_value   bigint      NOT NULL DEFAULT 0,
    last_updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- +goose Down
DROP TABLE counts.count_values;
