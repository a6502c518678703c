package app_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/counts/internal/app"
	"github.com/rowlock/rowlock/services/counts/internal/postgres"
)

// startPatient runs a replica in which a change that waits for a row gets it on every machine.
func startPatient(t *testing.T, dsn string, inFlight int) *apptest.Replica {
	t.Helper()
	return apptest.Run(t, app.Service(), dsn, map[string]string{
		"DB_LOCK_TIMEOUT": "60s", "DB_STATEMENT_TIMEOUT": "70s", "REQUEST_TIMEOUT": "80s", "SHUTDOWN_TIMEOUT": "90s",
		"MAX_IN_FLIGHT": strconv.Itoa(inFlight), "LOG_REQUESTS": "none",
	})
}

// Changes of every kind of one locked count take a sixth of a replica's permits; the others are refused, and each
// change of another count is made. Those that waited are applied.
func TestCallersOfALockedCountTakeNoReplica(t *testing.T) {
	t.Parallel()
	const callers, held = 500, 42
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, db := startPatient(t, dsn, 256), dbtest.Dial(t, dsn)
	want(t, "POST", r.API+internalCounts, `{"itemId":"locked"}`, 201, "")
	want(t, "POST", r.API+internalCounts, `{"itemId":"free"}`, 201, "")

	holder := apptest.Hold(t, db, `SELECT FROM counts.count_values WHERE item_id = 'locked' FOR UPDATE`)
	changes := [][3]string{
		{http.MethodPost, counts + "locked/increase", ""},
		{http.MethodPut, internalCounts + "/locked", `{"value":7}`},
		{http.MethodPost, strings.TrimSuffix(counts, "/"), `{"changes":[{"itemId":"locked","amount":1},` +
			`{"itemId":"free","amount":1},{"itemId":"free","amount":-1}]}`},
	}
	answers := make(chan apptest.Answer, callers)
	for i := range callers {
		c := changes[i%len(changes)]
		go func() { answers <- apptest.Send(t, c[0], r.API+c[1], c[2], apptest.JSON()) }()
	}
	waittest.Eventually(t, "the callers above the share are refused",
		func() bool { return len(answers) >= callers-held })
	for i := range 40 {
		want(t, "POST", r.API+counts+"free/increase", "", 200, fmt.Sprintf(`"value":%d}`, i+1))
	}

	for range callers - held {
		if a := <-answers; a.Status != 503 || a.Code != "OVERLOADED" || a.Header.Get("Retry-After") == "" {
			t.Fatalf("got %s with Retry-After %q, want 503 OVERLOADED", a, a.Header.Get("Retry-After"))
		}
	}
	if len(answers) != 0 {
		t.Fatalf("%s to a request that had a permit", <-answers)
	}
	holder.Rollback()
	for range held {
		if a := <-answers; a.Status != 200 {
			t.Errorf("got %s when the lock was gone", a)
		}
	}
}

// A count that is merely busy is no such case: none of its callers is refused.
func TestCallersOfAHotCountAreNotRefused(t *testing.T) {
	t.Parallel()
	r := startPatient(t, dbtest.Postgres(t, postgres.Migrations()), 1024)
	want(t, "POST", r.API+internalCounts, `{"itemId":"hot"}`, 201, "")
	waittest.Together(t, 1000, func(int) error {
		if a := apptest.Send(t, "POST", r.API+counts+"hot/increase", "", nil); a.Status != http.StatusOK {
			return fmt.Errorf("got %s", a)
		}
		return nil
	})
	want(t, "GET", r.API+internalCounts+"/hot", "", 200, `"currentValue":1000,`)
}
