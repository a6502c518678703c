package postgres

import "slices"

// distribution returns the statements that distribute the schema over a Citus cluster, by the id of the pot.
func distribution() []string {
	return slices.Concat(distributable(), []string{
		`SELECT create_distributed_table('pyggpot.pot', 'id')`,
		`SELECT create_distributed_table('pyggpot.pot_name', 'pot_name', colocate_with => 'none')`,
	})
}

// distributable returns the statements that make tables which can be distributed, and keep what they hold.
//
// A pot's row has its coins, so that a change of them, what proves it, and the end of the lease are one UPDATE of one
// row: Citus sends no statement with an INSERT in a CTE to a worker as a whole. The table coin stays on the
// coordinator, empty. Names are a table by themselves: a unique index must have the column that distributes its table.
// Numbers come from a sequence of the coordinator, because an identity column of a distributed table must be a bigint.
func distributable() []string {
	return []string{
		`ALTER TABLE pyggpot.coin DROP CONSTRAINT coin_pot_id_fkey`,
		`ALTER TABLE pyggpot.pot
    ALTER COLUMN id DROP IDENTITY,
    DROP CONSTRAINT pot_pot_name_key,
    ADD COLUMN denominations integer[] NOT NULL DEFAULT '{}',
    ADD COLUMN counts        integer[] NOT NULL DEFAULT '{}',
    ADD COLUMN changed_by    uuid[]    NOT NULL DEFAULT '{}',
    ADD COLUMN created_by    uuid,
    ADD CONSTRAINT pot_contents CHECK (cardinality(denominations) = cardinality(counts)
                                       AND denominations <@ '{1,10,100}' AND 0 <= ALL (counts))`,
		`WITH moved AS (
    DELETE FROM pyggpot.coin RETURNING pot_id, denomination, coin_count
)
UPDATE pyggpot.pot AS p
   SET denominations = m.denominations, counts = m.counts
  FROM (SELECT pot_id, array_agg(denomination) AS denominations, array_agg(coin_count) AS counts
          FROM moved WHERE coin_count > 0 GROUP BY pot_id) AS m
 WHERE p.id = m.pot_id`,
		`CREATE SEQUENCE pyggpot.pot_ids AS integer`,
		`SELECT setval('pyggpot.pot_ids', max(id)) FROM pyggpot.pot`,
		`CREATE TABLE pyggpot.pot_name (
    pot_name text COLLATE "C" PRIMARY KEY,
    pot_id   integer NOT NULL
)`,
		`INSERT INTO pyggpot.pot_name (pot_name, pot_id) SELECT pot_name, id FROM pyggpot.pot`,
	}
}

// The statements name the pot's id at each mention of the table, so that each goes to its worker as a whole,
// lock_timeout included. A session's own lock_timeout does not reach the workers, and neither does one that is set in a
// statement whose outermost command is not SELECT: the coordinator evaluates that. The clock is read in a CTE, behind
// the lock: Citus refuses it in SET and RETURNING.
const (
	// acquireOnShardFree locks no pot that is leased or whose row is locked. acquireOnShardWaiting waits for the session
	// that has the row locked, which releases its lease then.
	acquireOnShardFree = `
WITH locked AS MATERIALIZED (
    SELECT id, lock, lock_expire_time
      FROM pyggpot.pot
     WHERE id = $1 AND (SELECT set_config('lock_timeout', $4, true)) IS NOT NULL
       AND (lock IS NULL OR lock_expire_time <= clock_timestamp())
       FOR UPDATE SKIP LOCKED` + acquireOnShardSQL

	acquireOnShardWaiting = `
WITH locked AS MATERIALIZED (
    SELECT id, lock, lock_expire_time
      FROM pyggpot.pot
     WHERE id = $1 AND (SELECT set_config('lock_timeout', $4, true)) IS NOT NULL
       FOR UPDATE` + acquireOnShardSQL

	// acquireOnShardSQL reads the coins in the row that it has locked, also after a wait.
	acquireOnShardSQL = `
), clock AS MATERIALIZED (
    SELECT clock_timestamp() AS now, clock_timestamp() + $3::bigint * interval '1 microsecond' AS until, count(*) AS n
      FROM locked
), taken AS (
    UPDATE pyggpot.pot AS p
       SET lock = $2, lock_expire_time = k.until
      FROM locked AS l, clock AS k
     WHERE p.id = $1 AND p.id = l.id AND (l.lock IS NULL OR l.lock_expire_time <= k.now)
    RETURNING p.id, p.max_coins, p.lock_expire_time, l.lock IS NOT NULL AS expired,
              p.denominations, p.counts, p.changed_by
)
SELECT coalesce(array_agg(t.id), '{}') AS ids, coalesce(array_agg(t.max_coins), '{}') AS max_coins,
       count(*) FILTER (WHERE t.expired) AS expired, coalesce(min(t.lock_expire_time), 'epoch') AS expires,
       CASE WHEN count(*) = 0 THEN ARRAY(SELECT p.id FROM pyggpot.pot AS p WHERE p.id = $1) ELSE '{}' END AS others,
       coalesce((SELECT array_fill(id, ARRAY[cardinality(counts)]) FROM taken), '{}') AS pots,
       coalesce((SELECT denominations FROM taken), '{}') AS denominations,
       coalesce((SELECT counts FROM taken), '{}') AS counts,
       coalesce((SELECT changed_by FROM taken), '{}') AS changed_by
  FROM taken AS t`

	writeOnShardFree    = writeOnShardHead + " SKIP LOCKED" + writeOnShardTail
	writeOnShardWaiting = writeOnShardHead + writeOnShardTail

	writeOnShardHead = `
WITH fenced AS MATERIALIZED (
    SELECT id
      FROM pyggpot.pot
     WHERE id = $1 AND lock = $2 AND lock_expire_time > clock_timestamp()
       AND (SELECT set_config('lock_timeout', $6, true)) IS NOT NULL
       FOR UPDATE`

	// changed_by gets the leases of the last changes, the newest first: see lease.with.
	writeOnShardTail = `
), written AS (
    UPDATE pyggpot.pot AS p
       SET coins = $3, denominations = $4, counts = $5, changed_by = $7,
           lock = NULL, lock_expire_time = NULL
      FROM fenced AS f
     WHERE p.id = $1 AND p.id = f.id
    RETURNING p.id
)
SELECT coalesce(array_agg(id), '{}') AS ids FROM written`

	// resolveOnShardSQL waits until no transaction changes the pot, be it in progress or prepared, and then reads whether
	// the pot still has the lease, and what the last changes were. The lease gets another number, since the server may
	// execute the lost statement later. It may be sent again: it knows both numbers. Its lock is written, so that it is
	// answered when the worker's synchronous standby has what it read.
	resolveOnShardSQL = `
WITH locked AS MATERIALIZED (
    SELECT id, coalesce(lock IN ($2, $3), false) AS ours, changed_by
      FROM pyggpot.pot
     WHERE id = $1
       AND (SELECT set_config('lock_timeout', $4, true)) IS NOT NULL
       FOR UPDATE
), revoked AS (
    UPDATE pyggpot.pot AS p
       SET lock = $3
      FROM locked AS l
     WHERE p.id = $1 AND p.id = l.id AND l.ours
)
SELECT ours, changed_by FROM locked`

	releaseOnShardSQL = `
WITH ours AS MATERIALIZED (
    SELECT id
      FROM pyggpot.pot
     WHERE id = $1 AND lock = $2
       AND (SELECT set_config('lock_timeout', $3, true)) IS NOT NULL
       FOR UPDATE
), released AS (
    UPDATE pyggpot.pot AS p
       SET lock = NULL, lock_expire_time = NULL
      FROM ours
     WHERE p.id = $1 AND p.id = ours.id
    RETURNING p.id
)
SELECT count(*) FROM released`
)

const (
	onePotColumns  = `id, pot_name, max_coins, create_time, denominations, counts`
	findOnShardSQL = `SELECT ` + onePotColumns + ` FROM pyggpot.pot WHERE id = $1`
	countPotsSQL   = `SELECT count(*) FROM pyggpot.pot`
	listShardsSQL  = `SELECT ` + onePotColumns + ` FROM pyggpot.pot ORDER BY id LIMIT $1 OFFSET $2`
	findNameSQL    = `SELECT pot_id FROM pyggpot.pot_name WHERE pot_name = $1`
	nextIDSQL      = `SELECT nextval('pyggpot.pot_ids')`

	// nameSQL gives a name the number $2, and returns the number that it has. It replaces the number $3. It always writes,
	// so that it is answered when the worker's synchronous standby has what it returns.
	nameSQL = `
INSERT INTO pyggpot.pot_name AS n (pot_name, pot_id)
VALUES ($1, $2)
ON CONFLICT (pot_name) DO UPDATE SET pot_id = CASE WHEN n.pot_id = $3 THEN excluded.pot_id ELSE n.pot_id END
RETURNING pot_id`

	// createOnShardSQL creates the pot, unless there is one with its number, and returns which is there. It may be sent
	// again: created_by says who created it. It always writes, as nameSQL does.
	createOnShardSQL = `
INSERT INTO pyggpot.pot AS p (id, pot_name, max_coins, create_time, created_by)
VALUES ($1, $2, $3, clock_timestamp(), $4)
ON CONFLICT (id) DO UPDATE SET created_by = p.created_by
RETURNING pot_name, create_time, coalesce(created_by = $4, false) AS ours`
)
