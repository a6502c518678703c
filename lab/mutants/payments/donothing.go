// Mutant of services/payments/internal/postgres/places.go: DO NOTHING for expired keys.

package postgres

import (
	"errors"
	"slices"

	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// places says where claimSQL finds the records of its keys. A record stands under its key, whatever its caller is: one
// index thus keeps apart the replicas that identify callers, those that do not and those of earlier releases, which may
// all get one request. Only while a live record of another caller stands there has a caller a record of its own.
type places struct {
	name            string // of a key's record
	all             string // the names that the records of all keys may have
	caller          string // whose the key is
	stored          string // compares a payment's key with the names of the key's records
	arrays, columns string // of the callers
	join            string // finds the name
}

// ofNoCaller returns where the records of keys without a caller are: each has one place.
func ofNoCaller() places {
	return places{name: "c.key", all: "$1::text[]", caller: "''", stored: "= c.key"}
}

// ofCallers returns where the records of any keys are.
func ofCallers() places {
	return places{
		name: "place.name", all: "$1::text[] || $19::text[]", caller: "c.caller", stored: "IN (c.key, c.own)",
		arrays: ", $18::text[], $19::text[]", columns: ", caller, own", join: joinPlace,
	}
}

// expired holds of no record: a key that has expired cannot be claimed until it is cleaned up, and its old receipt is
// returned.
const expired = `false`

// joinPlace finds the live record of a key: its caller's own, else the one under the key if that is the caller's or
// no caller's. Where there is none it finds the place of the next one. An own record that has expired stays a caller's
// place: it cannot have two.
const joinPlace = `
     CROSS JOIN LATERAL (
         SELECT coalesce(
             (SELECT r.key FROM payments.idempotency_records r WHERE r.key = c.own AND NOT (` + expired + `)),
             (SELECT CASE WHEN r.caller IN ('', c.caller) THEN r.key ELSE c.own END
                FROM payments.idempotency_records r WHERE r.key = c.key AND NOT (` + expired + `)),
             (SELECT r.key FROM payments.idempotency_records r WHERE r.key = c.own),
             c.key) AS name
     ) AS place`

// ownRecord returns the name of a caller's own record; no key has a line break. Without a caller it is the key.
func ownRecord(k payment.Key) string {
	if k.Caller == "" {
		return k.Value
	}
	return k.Caller + "\n" + k.Value
}

// find returns the live record of a key among those that were found by their names, as joinPlace does.
func find(byName map[string]record, k payment.Key) (r record, found bool) {
	if own, found := byName[ownRecord(k)]; found {
		return own, true
	}
	bare, found := byName[k.Value]
	if !found || bare.Caller != "" && bare.Caller != k.Caller {
		return record{}, false
	}
	return bare, true
}

// placesOf returns where the records of a group are, and the indexes of the bids that one statement may carry: of
// several callers' bids for one key the first, because all may take the same record.
func placesOf(group []bid) (where places, sent []int) {
	where, sent = ofNoCaller(), make([]int, len(group))
	for i := range sent {
		sent[i] = i
	}
	if !slices.ContainsFunc(group, func(c bid) bool { return c.Key.Caller != "" }) {
		return where, sent
	}
	seen := make(map[string]bool, len(group))
	return ofCallers(), slices.DeleteFunc(sent, func(i int) bool {
		key := group[i].Key.Value
		again := seen[key]
		seen[key] = true
		return again
	})
}

// ofCallerIndex keeps a caller's key to one record.
const ofCallerIndex = "idempotency_records_of_caller"

// inOtherPlace reports whether a claim failed because another replica has claimed the key meanwhile in its other place.
func inOtherPlace(err error) bool {
	e, ok := errors.AsType[*sqldb.Error](err)
	return ok && e.Constraint == ofCallerIndex
}
