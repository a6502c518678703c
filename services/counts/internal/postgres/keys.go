package postgres

// takeKeys returns the part of a statement that takes the keys of what is decided, for the journal's id and the time to
// live in these parameters: a key is taken in the statement that applies its change, so of two at once one waits for
// the other, and then finds it taken. A key that has expired is taken over.
func takeKeys(id, ttl string, p places) string {
	return p.prelude + `taken AS (
    INSERT INTO counts.idempotency_keys AS k
           (caller, owner, key, fingerprint, group_id, position, refusal, refused_at, expires_at)
    SELECT ` + p.columns + `, d.key, d.fingerprint, ` + id + `::uuid, d.r, d.refusal, d.refused_at,
           statement_timestamp() + ` + ttl + ` * interval '1 microsecond'
      FROM ` + p.decided + ` d
     ORDER BY 1, d.key COLLATE "C"
    ON CONFLICT (caller, key) DO UPDATE
       SET owner = excluded.owner, fingerprint = excluded.fingerprint, group_id = excluded.group_id,
           position = excluded.position, refusal = excluded.refusal, refused_at = excluded.refused_at,
           expires_at = excluded.expires_at
     WHERE k.expires_at <= clock_timestamp()
    RETURNING k.position, k.refusal
)`
}
