package postgres

// expired says of a record that its life is over, so that its key counts as new.
const expired = `r.status = 'COMPLETED' AND r.expires_at <= clock_timestamp()`
