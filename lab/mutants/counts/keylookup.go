// Mutant of services/counts/internal/postgres/keys.go: a key is looked up before, not within, the statement.

package postgres

// takeKeys reads which keys are free, instead of letting the insertion decide. Of two at once, neither sees the other's
// key, and both are applied.
func takeKeys(id, ttl string, p places) string {
	return p.prelude + `taken AS MATERIALIZED (
    SELECT d.r AS position, d.refusal
      FROM ` + p.decided + ` d
     WHERE NOT EXISTS (SELECT FROM counts.idempotency_keys k
                        WHERE k.caller = d.caller AND k.key = d.key AND k.expires_at > clock_timestamp())
), stored AS (
    INSERT INTO counts.idempotency_keys AS k
           (caller, owner, key, fingerprint, group_id, position, refusal, refused_at, expires_at)
    SELECT ` + p.columns + `, d.key, d.fingerprint, ` + id + `::uuid, d.r, d.refusal, d.refused_at,
           statement_timestamp() + ` + ttl + ` * interval '1 microsecond'
      FROM ` + p.decided + ` d
      JOIN taken t ON t.position = d.r
     ORDER BY 1, d.key COLLATE "C"
    ON CONFLICT (caller, key) DO NOTHING
)`
}
