package app_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/payments/internal/postgres"
)

// Two replicas on a cluster take each payment from three callers, while every few replies of the workers get lost: each
// is charged once and stored once, and its callers get one answer.
func TestPaysOnCitus(t *testing.T) {
	t.Parallel()
	dsn, workers := apptest.Citus(t, postgres.Migrations())
	replicas := startAll(t, dsn, 2, map[string]string{"DB_CLUSTER": "citus", "RECONCILE_AFTER": "500ms"})
	for _, w := range workers {
		w.CutEvery(9, faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("payments."))
		w.CutEvery(7, faultproxy.AfterCommit, faultproxy.RST)
	}
	const payments, callers, patience = 30, 3, time.Minute
	begin := time.Now()
	var mu sync.Mutex
	first := make(map[string]string)
	waittest.Together(t, payments*callers, func(i int) error {
		key := fmt.Sprint("key", i%payments)
		a := answer{}
		for a.Status != http.StatusCreated {
			if time.Since(begin) > patience {
				return fmt.Errorf("%s is not paid within %s: %s", key, patience, a)
			}
			a = replicas[i%2].pay(t, key, body(100+i%payments, goodCard))
			if a.Status == http.StatusConflict && a.Code != "PAYMENT_PROCESSING" {
				return fmt.Errorf("%s: %s", key, a)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if answered := first[key]; answered != "" && answered != a.Body {
			return fmt.Errorf("%s is answered %s and %s", key, answered, a.Body)
		}
		first[key] = a.Body
		return nil
	})
	cuts := 0
	for _, w := range workers {
		w.StopCutting()
		cuts += w.Cuts()
	}
	t.Logf("%d replies were cut", cuts)
	if cuts < payments/4 {
		t.Errorf("%d replies were cut: the test proved little", cuts)
	}
	base{dbtest.Dial(t, dsn)}.counts(t, payments, payments, payments)
}
