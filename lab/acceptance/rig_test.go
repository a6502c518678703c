package acceptance

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/platform/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// answerLimit is when an answer counts as a hang: REQUEST_TIMEOUT is 10 s.
const answerLimit = 12 * time.Second

// counts runs n replicas of counts on the database; variables go over the defaults.
func counts(t *testing.T, n int, dsn string, variables map[string]string) *local.Set {
	t.Helper()
	return localtest.Start(t, n, local.Spec{Service: "counts", Path: localtest.Binary(t, "counts")}, dsn, variables)
}

// outcome is the class of an answer, see the package's comment.
type outcome uint8

const (
	acknowledged outcome = iota
	notApplied
	unknown
	refused // 4xx: not applied and never will be
)

// answer is what came of a request.
type answer struct {
	outcome outcome
	status  int // 0 when there was none
	code    string
	value   int64
	header  http.Header
	err     error
	took    time.Duration
}

// client speaks to the service. It is for many goroutines at once.
type client struct{ http *http.Client }

func newClient(t *testing.T) *client {
	t.Helper()
	// A server closes a connection that was opened in vain after five seconds
	// (ReadHeaderTimeout). The client must be first: a POST that meets the close is
	// lost, and nobody can say whether it arrived.
	tr := &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: 2 * time.Second}
	t.Cleanup(tr.CloseIdleConnections)
	return &client{http: &http.Client{Transport: tr, Timeout: answerLimit}}
}

// change sends increase, decrease or reset; amount 0 leaves the body out.
func (c *client) change(ctx context.Context, addr, id, verb string, amount int64) answer {
	body := ""
	if amount != 0 {
		body = fmt.Sprintf(`{"amount":%d}`, amount)
	}
	return c.do(ctx, http.MethodPost, "http://"+addr+"/api/v1/counts/"+url.PathEscape(id)+"/"+verb, body)
}

// create makes a counter; it must not be there.
func (c *client) create(t *testing.T, addr, id string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"itemId": id})
	if err != nil {
		t.Fatal(err)
	}
	if a := c.do(t.Context(), http.MethodPost, "http://"+addr+"/api/v1/internal/counts", string(body)); a.status != http.StatusCreated {
		t.Fatalf("create %s: %+v", id, a)
	}
}

// value reads a counter.
func (c *client) value(t *testing.T, addr, id string) int64 {
	t.Helper()
	a := c.do(t.Context(), http.MethodGet, "http://"+addr+"/api/v1/internal/counts/"+url.PathEscape(id), "")
	if a.status != http.StatusOK {
		t.Fatalf("read %s: %+v", id, a)
	}
	return a.value
}

func (c *client) do(ctx context.Context, method, target, body string) (a answer) {
	begin := time.Now()
	defer func() { a.took = time.Since(begin) }()
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return answer{outcome: notApplied, err: err}
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{outcome: lost(err), err: err}
	}
	a = answer{status: resp.StatusCode, header: resp.Header}
	raw, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return answer{outcome: unknown, err: err}
	}
	a.outcome, a.code, a.value, a.err = judge(resp.StatusCode, raw)
	return a
}

// lost classes a request without an answer: only a dial that failed is sure.
func lost(err error) outcome {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return notApplied
	}
	return unknown
}

func judge(status int, raw []byte) (o outcome, code string, value int64, err error) {
	var doc struct {
		Code         string `json:"code"`
		Value        *int64 `json:"value"`
		CurrentValue *int64 `json:"currentValue"`
	}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &doc); err != nil {
			return unknown, "", 0, fmt.Errorf("status %d with %q: %w", status, raw, err)
		}
	}
	switch {
	case doc.Value != nil:
		value = *doc.Value
	case doc.CurrentValue != nil:
		value = *doc.CurrentValue
	}
	switch {
	case status < http.StatusMultipleChoices:
		return acknowledged, "", value, nil
	case status < http.StatusInternalServerError:
		return refused, doc.Code, 0, nil
	case status == http.StatusServiceUnavailable:
		return notApplied, doc.Code, 0, nil
	case status == http.StatusInternalServerError && doc.Code == "OUTCOME_UNKNOWN":
		return unknown, doc.Code, 0, nil
	default:
		return unknown, doc.Code, 0, fmt.Errorf("status %d with %s is none that the contract allows", status, raw)
	}
}

// ledger is what the clients know of the counters.
type ledger struct {
	mu       sync.Mutex
	sum      map[string]int64           // of what was acknowledged
	low      map[string]int64           // of what is unknown and would lower the value
	high     map[string]int64           // of what is unknown and would raise it
	values   map[string]map[int64]int64 // how often a value was answered
	by       map[outcome]int
	faults   []string // answers that the contract does not allow
	slowest  time.Duration
	problems map[string]int // by code
}

func newLedger() *ledger {
	return &ledger{
		sum: map[string]int64{}, low: map[string]int64{}, high: map[string]int64{},
		values: map[string]map[int64]int64{}, by: map[outcome]int{}, problems: map[string]int{},
	}
}

// note enters an answer to a change by delta.
func (l *ledger) note(id string, delta int64, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by[a.outcome]++
	l.slowest = max(l.slowest, a.took)
	if a.code != "" {
		l.problems[a.code]++
	}
	switch a.outcome {
	case acknowledged:
		l.sum[id] += delta
		if l.values[id] == nil {
			l.values[id] = map[int64]int64{}
		}
		l.values[id][a.value]++
	case unknown:
		l.low[id] += min(delta, 0)
		l.high[id] += max(delta, 0)
		if a.status != 0 && a.err != nil {
			l.faults = append(l.faults, a.err.Error())
		}
	case notApplied:
		if a.status != 0 && a.header.Get("Retry-After") == "" {
			l.faults = append(l.faults, "503 "+a.code+" without Retry-After")
		}
	case refused:
		l.faults = append(l.faults, fmt.Sprintf("%s: status %d %s", id, a.status, a.code))
	}
}

// check holds the counters against the ledger. unique says that all changes
// were increases by one, so that no value may have been answered twice.
func (l *ledger) check(t *testing.T, c *client, addr string, ids []string, unique bool) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.faults {
		t.Error(f)
	}
	for _, id := range ids {
		got, low, high := c.value(t, addr, id), l.sum[id]+l.low[id], l.sum[id]+l.high[id]
		if got < low || got > high {
			t.Errorf("%s is %d, which is not between %d and %d (acknowledged %d)", id, got, low, high, l.sum[id])
		}
		if !unique {
			continue
		}
		for value, times := range l.values[id] {
			if times != 1 || value < 1 || value > got {
				t.Errorf("%s: the value %d was answered %d times; it ends as %d", id, value, times, got)
			}
		}
	}
	if l.slowest >= answerLimit {
		t.Errorf("an answer took %s", l.slowest)
	}
	t.Logf("acknowledged %d, not applied %d, unknown %d, slowest %s, codes %v",
		l.by[acknowledged], l.by[notApplied], l.by[unknown], l.slowest.Round(time.Millisecond), l.problems)
}

// want demands that nothing but acknowledgements came, at least this many.
func (l *ledger) wantAllAcknowledged(t *testing.T, atLeast int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.by[notApplied] + l.by[unknown] + l.by[refused]; n != 0 {
		t.Errorf("%d requests were not acknowledged: %v %v", n, l.by, l.problems)
	}
	if l.by[acknowledged] < atLeast {
		t.Errorf("only %d requests: too few to prove anything", l.by[acknowledged])
	}
}

func dial(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// eventually waits until cond holds.
func eventually(t *testing.T, what string, within time.Duration, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not so within %s: %s", within, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// items names n counters and makes them.
func items(t *testing.T, c *client, addr string, n int) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("item-%02d", i)
		c.create(t, addr, ids[i])
	}
	return ids
}
