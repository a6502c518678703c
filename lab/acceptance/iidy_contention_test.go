package acceptance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/dbtest"
)

// Ten seconds of overlapping batches and single calls of every kind, in random
// order, at three replicas: no deadlock, and the counts are exact.
func TestIidyOverlappingBatches(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	hurryDeadlocks(t, dsn)
	all := addrs(iidy(t, 3, dsn, nil))
	stable, moving := lines("stable", 300), lines("moving", 300)
	newLists(t, all[0]).want("POST", "/batch/lists/downloads", strings.NewReader(strings.Join(stable, "")), 300)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var added, deleted, incremented, sent, calls atomic.Int64
	var done sync.WaitGroup
	for w := range 12 {
		l := newLists(t, all[w%3])
		done.Go(func() {
			for ctx.Err() == nil {
				calls.Add(1)
				size := 1 + rand.IntN(150)
				from, total, path, method := moving, &added, "/batch/lists/downloads", http.MethodPost
				switch rand.IntN(5) {
				case 0, 1:
					from, total, path = stable, &incremented, path+"?action=increment"
				case 2:
					total, method = &deleted, http.MethodDelete
				case 3:
					from, total, size = stable, &incremented, 1
					path = "/lists/downloads/" + strings.TrimSuffix(stable[rand.IntN(len(stable))], "\n") + "?action=increment"
				default:
				}
				var body strings.Builder
				if !strings.HasPrefix(path, "/lists") {
					for _, i := range rand.Perm(len(from))[:size] {
						body.WriteString(from[i])
					}
				}
				n, err := l.count(method, path, strings.NewReader(body.String()))
				if err != nil {
					t.Error(err)
				}
				total.Add(n)
				if total == &incremented {
					sent.Add(int64(size))
				}
			}
		})
	}
	done.Wait()
	var left, attempts int64
	if err := dial(t, dsn).QueryRowContext(t.Context(), `SELECT count(*) FILTER (WHERE item LIKE 'moving%'),
		sum(attempts) FILTER (WHERE item LIKE 'stable%') FROM iidy.lists`).Scan(&left, &attempts); err != nil {
		t.Fatal(err)
	}
	if left != added.Load()-deleted.Load() {
		t.Errorf("%d items are there after %d adds and %d deletes", left, added.Load(), deleted.Load())
	}
	if attempts != incremented.Load() || attempts != sent.Load() {
		t.Errorf("%d attempts; %d increments were counted, %d sent", attempts, incremented.Load(), sent.Load())
	}
	if got := deadlocks(t, dsn); got != 0 {
		t.Errorf("%d deadlocks", got)
	}
	t.Logf("%d calls, %d adds, %d deletes, %d increments", calls.Load(), added.Load(), deleted.Load(), incremented.Load())
}

// lines are n items, a line each.
func lines(name string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%04d\n", name, i)
	}
	return all
}

// Eight workers at three replicas drain a list by claims: each item is worked on
// once. One of them dies with a claim; its items are handed out again, and what it
// says later touches nothing.
func TestIidyClaimsDrainAList(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	all := addrs(iidy(t, 3, dsn, nil))
	const n = 100_000
	newLists(t, all[0]).want("POST", "/batch/lists/downloads", upload(n, false), n)
	dead := newLists(t, all[0])
	const lost = 500
	r := dead.do("POST", fmt.Sprintf("/batch/lists/downloads?action=claim&count=%d&lease=3s", lost), nil)
	dying := r.header.Get("X-Iidy-Claim")
	if r.status != http.StatusOK || strings.Count(r.body, "\n") != lost {
		t.Fatalf("claim: %d %s", r.status, r.body)
	}
	var mu sync.Mutex
	worked := make(map[string]int, n)
	var done sync.WaitGroup
	for w := range 8 {
		l := newLists(t, all[w%3])
		done.Go(func() {
			for {
				got := l.do("POST", "/batch/lists/downloads?action=claim&count=400&lease=5m", nil)
				if got.status != http.StatusOK {
					t.Errorf("claim: %d %s", got.status, got.body)
					return
				}
				claim := got.header.Get("X-Iidy-Claim")
				if claim == "" {
					if l.do("HEAD", "/lists/downloads", nil).status == http.StatusNotFound {
						return
					}
					time.Sleep(50 * time.Millisecond) // somebody still holds the rest
					continue
				}
				items := itemsOf(got.body)
				mu.Lock()
				for item := range strings.Lines(items) {
					worked[item]++
				}
				mu.Unlock()
				l.want("DELETE", "/batch/lists/downloads?claim="+claim, strings.NewReader(items), int64(strings.Count(items, "\n")))
			}
		})
	}
	done.Wait()
	if len(worked) != n {
		t.Errorf("%d of %d items were worked on", len(worked), n)
	}
	for item, times := range worked {
		if times != 1 {
			t.Errorf("%q was worked on %d times", item, times)
		}
	}
	dead.want("POST", "/batch/lists/downloads", strings.NewReader(itemsOf(r.body)), lost)
	dead.want("POST", "/batch/lists/downloads?action=increment&claim="+dying, strings.NewReader(itemsOf(r.body)), 0)
	dead.want("DELETE", "/batch/lists/downloads?claim="+dying, strings.NewReader(itemsOf(r.body)), 0)
}
