package postgres

import (
	"errors"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// places says where the rows of keys stand. The row of a key has no caller in its primary key, whatever its owner is.
// That index thus keeps apart replicas that identify callers, replicas that do not and those of earlier releases, which
// may all get one request. Only while a live row of another owner stands there has an owner a row with its name as the
// caller.
type places struct {
	prelude string // CTEs before the one that takes the keys
	decided string // the keys that may be taken
	columns string // caller and owner of a key's row
}

// ofNoCaller returns where the rows of keys without a caller are: each has one place.
func ofNoCaller() places {
	return places{decided: "decided", columns: `d.caller COLLATE "C", ''`}
}

// ofCallers returns where the rows of any keys are.
func ofCallers() places {
	return places{prelude: findPlaces, decided: "placed", columns: `d.place COLLATE "C", d.caller`}
}

// findPlaces leaves out the keys that are taken: by their caller, or without one. A row of its own that has expired
// stays a caller's place: it cannot have two.
const findPlaces = `placed AS MATERIALIZED (
    SELECT d.r, d.caller, d.key, d.fingerprint, d.refused_at, d.refusal,
           CASE WHEN k.expires_at > clock_timestamp() AND k.owner <> d.caller OR own.owner <> ''
                THEN d.caller ELSE '' END AS place
      FROM decided d
      LEFT JOIN counts.idempotency_keys k ON k.caller = '' AND k.key = d.key
      LEFT JOIN counts.idempotency_keys own ON own.caller = d.caller AND own.key = d.key AND d.caller <> ''
     WHERE (own.expires_at > clock_timestamp()) IS NOT TRUE
       AND (k.expires_at > clock_timestamp() AND k.owner IN ('', d.caller)) IS NOT TRUE
), `

// keyedSQL holds the statements that take keys.
type keyedSQL struct {
	updates, singles passSQL
	set              string
}

func newKeyedSQL(p places) keyedSQL {
	return keyedSQL{updates: newPassSQL(updatesSQL, p), singles: newPassSQL(singlesSQL, p), set: setKeyedSQL(p)}
}

// keyedSQL returns the statements for keys of callers, or for those without.
func (s *Store) keyedSQL(callers bool) *keyedSQL {
	if callers {
		return &s.ofCallers
	}
	return &s.ofNoCaller
}

// inOtherPlace reports whether a statement failed because another replica has taken a key meanwhile in its other place.
func inOtherPlace(err error) bool {
	e, ok := errors.AsType[*sqldb.Error](err)
	return ok && e.Constraint == "idempotency_keys_owner"
}
