package iidy_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/iidy"
)

// worklist answers as the service does, with one claim at a time, whose lease runs out by the bubble's clock.
type worklist struct {
	mu sync.Mutex
	// batches are the items that are still free, by the claim that will take them.
	batches [][]string
	until   time.Time
	held    map[string]bool
	log     []string
	// deaf makes extensions fail; stolen makes another claim take the items.
	deaf, stolen bool
	// busy is how many claims are refused for half a minute; silent how many extensions get no answer.
	busy, silent int
}

func (w *worklist) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if w.unanswered(req) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	resp := w.answer(req)
	if path.Base(req.URL.Path) == "c" {
		time.Sleep(lease) // while this answer is on its way, the claim holds nothing, and is not lost
	}
	return resp, nil
}

// unanswered reports whether the request is an extension that gets no answer.
func (w *worklist) unanswered(req *http.Request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent == 0 || req.URL.Query().Get("action") != "extend" {
		return false
	}
	w.silent--
	return true
}

func (w *worklist) answer(req *http.Request) *http.Response {
	recorder := httptest.NewRecorder()
	if req.Body != nil {
		_ = req.Body.Close()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	query := req.URL.Query()
	action := query.Get("action")
	live := query.Get("claim") == "" || time.Now().Before(w.until) && !w.stolen
	var answer any
	switch item := path.Base(req.URL.Path); {
	case action == "claim" && w.busy > 0:
		w.busy--
		recorder.Header().Set("Retry-After", "30")
		recorder.WriteHeader(http.StatusServiceUnavailable)
		answer = map[string]string{"code": "OVERLOADED"}
	case action == "claim":
		answer = w.take(query.Get("lease"))
	case action == "extend" && w.deaf:
		recorder.WriteHeader(http.StatusServiceUnavailable)
		answer = map[string]string{"code": "DATABASE_UNAVAILABLE"}
	case action == "extend" && live:
		w.until = time.Now().Add(lease)
		answer = map[string]int{"extended": len(w.held)}
	case action == "extend":
		answer = map[string]int{"extended": 0}
	case action == "release":
		w.log = append(w.log, "release")
		answer = map[string]int{"released": len(w.held)}
	case !live || !w.held[item]:
		answer = map[string]int{"deleted": 0, "incremented": 0}
	case req.Method == http.MethodDelete:
		delete(w.held, item)
		w.log = append(w.log, "done "+item)
		answer = map[string]int{"deleted": 1}
	default:
		w.log = append(w.log, "failed "+item)
		answer = map[string]int{"incremented": 1}
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	_, _ = recorder.Write(raw)
	resp := recorder.Result()
	resp.Request = req
	return resp
}

func (w *worklist) take(lease string) any {
	d, _ := time.ParseDuration(lease)
	w.held, w.until = map[string]bool{}, time.Now().Add(d)
	if len(w.batches) == 0 {
		return map[string]any{"claim": "", "lease_until": "", "listentries": []any{}}
	}
	var entries []map[string]any
	for _, item := range w.batches[0] {
		w.held[item] = true
		entries = append(entries, map[string]any{"item": item, "attempts": 2})
	}
	w.batches = w.batches[1:]
	const id = "0198f3c2-0000-4000-8000-000000000001"
	return map[string]any{"claim": id, "lease_until": w.until.UTC().Format(time.RFC3339Nano), "listentries": entries}
}

const lease = time.Minute

func (w *worklist) open(t *testing.T) *iidy.List {
	t.Helper()
	c, err := iidy.New("http://iidy", rowlock.WithHTTPClient(&http.Client{Transport: w}))
	if err != nil {
		t.Fatal(err)
	}
	return c.List("l")
}

func (w *worklist) wantLog(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(w.log, want) {
		t.Errorf("the service was sent %q, want %q", w.log, want)
	}
}

// All that is free is worked on, however long it takes, and nothing is released that is done.
func TestWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &worklist{batches: [][]string{{"a", "b"}, {"c"}}}
		for task, err := range w.open(t).Work(t.Context(), 2, lease) {
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * lease)
			finish := task.Done
			if task.Item == "b" {
				finish = task.Fail
			}
			if err := errors.Join(finish(t.Context()), context.Cause(task.Context())); err != nil || task.Attempts != 2 {
				t.Errorf("%+v: %v", task.Entry, err)
			}
		}
		w.wantLog(t, "done a", "failed b", "done c")
	})
}

// A claim that is taken late, or whose first extension is lost, is kept all the same.
func TestWorkSurvives(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*worklist{
		"a claim that was repeated":   {batches: [][]string{{"a"}}, busy: 3},
		"an extension without answer": {batches: [][]string{{"a"}}, silent: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				for task, err := range w.open(t).Work(t.Context(), 1, lease) {
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(3 * lease)
					if err := task.Done(t.Context()); err != nil {
						t.Errorf("%v, because %v", err, context.Cause(task.Context()))
					}
				}
				w.wantLog(t, "done a")
			})
		})
	}
}

// A loop that is left releases what it has not done, also when its context has ended.
func TestWorkIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &worklist{batches: [][]string{{"a", "b"}, {"c"}, {"d", "e"}}}
		list := w.open(t)
		for task, err := range list.Work(t.Context(), 2, lease) {
			if err = errors.Join(err, task.Done(t.Context())); err != nil {
				t.Fatal(err)
			}
			break
		}
		w.wantLog(t, "done a", "release")

		for task, err := range list.Work(t.Context(), 2, lease) { // to the last item, so that nothing is left
			if err = errors.Join(err, task.Done(t.Context())); err != nil {
				t.Fatal(err)
			}
			break
		}
		w.wantLog(t, "done a", "release", "done c")

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var errs []error
		for task, err := range list.Work(ctx, 2, lease) {
			if err == nil {
				cancel()
				err = context.Cause(task.Context())
			}
			errs = append(errs, err)
		}
		if len(errs) != 2 || !errors.Is(errs[0], context.Canceled) || !errors.Is(errs[1], context.Canceled) {
			t.Errorf("after its context has ended the loop got %v", errs)
		}
		w.wantLog(t, "done a", "release", "done c", "release")

		w.batches = [][]string{{"f"}}
		func() {
			defer func() { _ = recover() }()
			for _, err := range list.Work(t.Context(), 2, lease) {
				panic(err) // nil, as a bug of the worker's might
			}
		}()
		w.wantLog(t, "done a", "release", "done c", "release", "release")
	})
}

// A worker is told that its claim is lost, while it works and after it.
func TestClaimIsLost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		deaf, stolen bool
		within       time.Duration
		detail       string
	}{
		"no answer": {true, false, lease + 3*time.Second, "DATABASE_UNAVAILABLE"},
		"stolen":    {false, true, lease / 3, "no longer holds any item"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &worklist{batches: [][]string{{"a", "b"}}, deaf: tc.deaf, stolen: tc.stolen}
				begun := time.Now()
				var errs []error
				for task, err := range w.open(t).Work(t.Context(), 2, lease) {
					if err == nil {
						<-task.Context().Done()
						if err = task.Done(t.Context()); !errors.Is(err, iidy.ErrClaimLost) || rowlock.OutcomeUnknown(err) {
							t.Errorf("an item of a claim that is lost is done: %v", err)
						}
						err = context.Cause(task.Context())
					}
					errs = append(errs, err)
				}
				if took := time.Since(begun); took > tc.within {
					t.Errorf("the loss was told after %s, want %s at most", took, tc.within)
				}
				if len(errs) != 2 || !errors.Is(errs[0], iidy.ErrClaimLost) || !errors.Is(errs[1], iidy.ErrClaimLost) ||
					!strings.Contains(errs[1].Error(), tc.detail) {
					t.Errorf("the loop got %v", errs)
				}
			})
		})
	}
}
