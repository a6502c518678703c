package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/iidy/internal/app"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// replica is one running App.
type replica struct {
	*apptest.Replica

	api string
}

const (
	batch = "/iidy/v1/batch/lists/downloads"
	items = "/iidy/v1/lists/downloads"
)

// start runs a replica on dsn until the test ends or Stop is called.
func start(t *testing.T, dsn string, environ map[string]string) *replica {
	t.Helper()
	cfg := apptest.Config[app.Config](t, dsn, map[string]string{
		"DB_LOCK_TIMEOUT": "1s", "DB_STATEMENT_TIMEOUT": "2s", "REQUEST_TIMEOUT": "4s", "SHUTDOWN_TIMEOUT": "8s",
	}, environ)
	var log apptest.Log
	a, err := app.New(t.Context(), cfg, app.Process{Environ: environ, Output: &log})
	if err != nil {
		t.Fatal(err)
	}
	r := apptest.Start(t, a, &log)
	return &replica{r, "http://" + a.Addr().String()}
}

// want sends a request and demands status and body, which has its line break added.
func (r *replica) want(t *testing.T, method, path, body string, status int, want string) apptest.Answer {
	t.Helper()
	a := apptest.Send(t, method, r.api+path, body, nil)
	if a.Status != status || strings.TrimSuffix(a.Body, "\n") != want {
		t.Errorf("%s %s %.40q: %s, want %d %s", method, path, body, a, status, want)
	}
	return a
}

// numbers are n lines.
func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%07d\n", i)
	}
	return b.String()
}

// The life of a list, over HTTP and on PostgreSQL.
func TestLifeOfAList(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	r.want(t, "POST", batch, "a.txt\nb.txt\r\n\na/b\n", 201, "ADDED 3")
	r.want(t, "POST", batch, "a.txt\nc.txt", 201, "ADDED 1")
	r.want(t, "POST", items+"/c.txt", "", 201, "ADDED 0")
	r.want(t, "POST", items+"/a%2Fb?action=increment", "", 200, "INCREMENTED 1")
	r.want(t, "GET", items+"/a%2Fb", "", 200, "1")
	r.want(t, "GET", batch+"?count=2", "", 200, "a.txt 0\na/b 1")
	r.want(t, "GET", batch+"?count=2&after_id=a%2Fb", "", 200, "b.txt 0\nc.txt 0")
	claim := r.want(t, "POST", batch+"?action=claim&count=2&lease=1m", "", 200, "a.txt 0\na/b 1").Header.Get("X-Iidy-Claim")
	r.want(t, "DELETE", batch+"?claim="+claim, "a.txt\nb.txt", 200, "DELETED 1")
	r.want(t, "DELETE", batch+"?min_attempts=1", "", 200, "DELETED 1")
	r.want(t, "GET", items+"/a%2Fb", "", 404, "Not found.")
	if a := apptest.Send(t, "HEAD", r.api+items, "", nil); a.Status != 200 || a.Body != "" {
		t.Errorf("HEAD: %s", a)
	}
	if a := apptest.Get(t, r.api+"/openapi.yaml"); a.Status != 200 || !strings.HasPrefix(a.Body, "openapi: 3") {
		t.Errorf("the contract: %s", a)
	}
}

// A long batch is one transaction, in either format, there and back.
func TestLongBatches(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	const n = 30_000
	lines := numbers(n)
	inJSON := `{"items":["` + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", `","`) + `"]}`
	r.want(t, "POST", batch, lines, 201, fmt.Sprint("ADDED ", n))
	for body, want := range map[string]string{lines: fmt.Sprint("INCREMENTED ", n), inJSON: fmt.Sprintf(`{"incremented":%d}`, n)} {
		header := map[string]string{}
		if strings.HasPrefix(body, "{") {
			header = apptest.JSON()
		}
		if a := apptest.Send(t, "POST", r.api+batch+"?action=increment", body, header); a.Status != 200 || a.Body != want+"\n" {
			t.Errorf("%s, want %s", a, want)
		}
	}
	r.want(t, "GET", items, "", 200, fmt.Sprintf(
		"items %d\nclaimed 0\nattempts 0 0\nattempts 1 0\nattempts 2 %d\nattempts 3 0\nattempts 4 0\nattempts 5+ 0", n, n))
	// One bad line, the last, and nothing is deleted.
	a := apptest.Send(t, "DELETE", r.api+batch, lines+"\n"+strings.Repeat("x", 2000), nil)
	if a.Status != 400 || a.Header.Get("X-Error-Code") != "ITEM_TOO_LONG" || !strings.HasPrefix(a.Body, fmt.Sprintf("Line %d: ", n+2)) {
		t.Errorf("a bad line: %s", a)
	}
	r.want(t, "DELETE", batch, lines, 200, fmt.Sprint("DELETED ", n))
	if got := r.Metric(t, "iidy_bulk_in_flight"); got != 0 {
		t.Errorf("%g long batches are under way", got)
	}
	if got := r.Metric(t, `iidy_items_total{change="incremented"}`); got != 2*n {
		t.Errorf("the metric counts %g increments", got)
	}
}

// upload sends the beginning of a long batch and leaves the rest to the caller.
func upload(t *testing.T, r *replica, declared int, begin string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.api, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", batch, declared, begin); err != nil {
		t.Fatal(err)
	}
	apptest.WaitUntil(t, "the upload has its transaction", func() bool { return r.Metric(t, "iidy_bulk_in_flight") > 0 })
	return c
}

// A client that hangs up in the middle leaves nothing behind.
func TestCutUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	c := upload(t, r, 1<<20, numbers(30_000))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	apptest.WaitUntil(t, "the transaction is over", func() bool { return r.Metric(t, "iidy_bulk_in_flight") == 0 })
	r.want(t, "GET", batch+"?count=1", "", 200, "")
	r.want(t, "POST", batch, numbers(20_000), 201, "ADDED 20000")
}

// A client that sends nothing for REQUEST_TIMEOUT is told so, and holds nothing any more.
func TestStalledUploadIsEnded(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), map[string]string{
		"DB_LOCK_TIMEOUT": "300ms", "DB_STATEMENT_TIMEOUT": "600ms", "REQUEST_TIMEOUT": "1s", "BULK_TIMEOUT": "1m",
	})
	c := upload(t, r, 1<<20, numbers(30_000))
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1<<10)
	n, err := c.Read(answer)
	if err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 400 ") {
		t.Errorf("a stalled upload was answered %q, %v", answer[:n], err)
	}
	apptest.WaitUntil(t, "the transaction is over", func() bool { return r.Metric(t, "iidy_bulk_in_flight") == 0 })
	r.want(t, "GET", batch+"?count=1", "", 200, "")
}

// slowly is a body with a pause before each part.
type slowly struct {
	parts []string
	pause time.Duration
}

func (s *slowly) Read(p []byte) (int, error) {
	if len(s.parts) == 0 {
		return 0, io.EOF
	}
	time.Sleep(s.pause)
	n := copy(p, s.parts[0])
	if s.parts[0] = s.parts[0][n:]; s.parts[0] == "" {
		s.parts = s.parts[1:]
	}
	return n, nil
}

// An upload may take longer than REQUEST_TIMEOUT, while it does not pause for that long.
func TestSlowUploadIsNotEnded(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), map[string]string{
		"DB_LOCK_TIMEOUT": "200ms", "DB_STATEMENT_TIMEOUT": "400ms", "REQUEST_TIMEOUT": "500ms", "BULK_TIMEOUT": "1m",
	})
	body := &slowly{pause: 30 * time.Millisecond}
	for i := range 25 {
		body.parts = append(body.parts, strings.ReplaceAll(numbers(1000), "0000", fmt.Sprintf("%02d-", i)))
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.api+batch, body)
	if err != nil {
		t.Fatal(err)
	}
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil || string(text) != "ADDED 25000\n" {
		t.Errorf("%d %q %v", resp.StatusCode, text, err)
	}
}

// More long batches than BULK_IN_FLIGHT are refused, short ones are not.
func TestTooManyLongBatches(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), map[string]string{"BULK_IN_FLIGHT": "1"})
	c := upload(t, r, 30_000*8, numbers(29_000))
	a := apptest.Send(t, "POST", r.api+batch, numbers(11_000), map[string]string{"Accept": "application/json"})
	if a.Status != 503 || a.Code != "OVERLOADED" || a.Header.Get("Retry-After") == "" {
		t.Errorf("a second long batch: %s", a)
	}
	r.want(t, "POST", batch, "short", 201, "ADDED 1")
	if _, err := io.WriteString(c, numbers(30_000)[29_000*8:]); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1<<10)
	if n, err := c.Read(answer); err != nil || !strings.Contains(string(answer[:n]), "ADDED 30000") {
		t.Errorf("the first one was answered %q, %v", answer[:n], err)
	}
	if got := r.Metric(t, "iidy_bulk_refused_total"); got != 1 {
		t.Errorf("%g were refused", got)
	}
}

func TestMaxBody(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), map[string]string{"MAX_BODY": "100KiB"})
	a := apptest.Send(t, "POST", r.api+batch, numbers(13_000), nil)
	// A server that refuses a body may close before the client has sent it all.
	if a.Status != 0 && (a.Status != 413 || a.Header.Get("X-Error-Code") != "BODY_TOO_LARGE") {
		t.Errorf("declared: %s", a)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.api+batch, io.MultiReader(strings.NewReader(numbers(13_000))))
	if err != nil {
		t.Fatal(err)
	}
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	if resp, err := transport.RoundTrip(req); err == nil {
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("chunked: %d", resp.StatusCode)
		}
		_ = resp.Body.Close()
	}
	r.want(t, "GET", batch+"?count=1", "", 200, "")
}

// What net/http refuses by itself looks like the rest.
func TestBadPercentEscape(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.api, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "GET "+items+"/%zz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") ||
		!strings.Contains(string(answer), "X-Error-Code: INVALID_FIELD\r\n") || !strings.HasSuffix(string(answer), ".\n") {
		t.Errorf("%q %v", answer, err)
	}
}

// Every sentence that is not a page is counted once, over three replicas at once.
func TestReplicasShareAList(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	var rs []*replica
	for range 3 {
		rs = append(rs, start(t, dsn, nil))
	}
	var added, incremented atomic.Int64
	apptest.Together(60, func(i int) {
		r := rs[i%3]
		var n int64
		for _, step := range []struct {
			path, verb string
			total      *atomic.Int64
		}{{items + "/hot", "ADDED", &added}, {items + "/hot?action=increment", "INCREMENTED", &incremented}} {
			a := apptest.Send(t, "POST", r.api+step.path, "", nil)
			if _, err := fmt.Sscanf(a.Body, step.verb+" %d", &n); err != nil {
				t.Errorf("%s: %v", a, err)
			}
			step.total.Add(n)
		}
	})
	if added.Load() != 1 || incremented.Load() != 60 {
		t.Errorf("%d added, %d incremented", added.Load(), incremented.Load())
	}
	rs[0].want(t, "GET", items+"/hot", "", 200, "60")
}

// SIGTERM (here: the end of the context) in the middle of the load: whoever was
// let in gets a true answer, and the list is exactly what was acknowledged.
func TestDrainLosesNothing(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r, witness := start(t, dsn, nil), start(t, dsn, nil)
	witness.want(t, "POST", items+"/a", "", 201, "ADDED 1")
	var acknowledged atomic.Int64
	var done sync.WaitGroup
	enough := make(chan struct{})
	for range 20 {
		done.Go(func() {
			for {
				switch a := apptest.Send(t, "POST", r.api+items+"/a?action=increment", "", nil); a.Status {
				case 200:
					if acknowledged.Add(1) == 200 {
						close(enough)
					}
				case 0:
					return // the listener is closed; had this one been applied, the sum would tell
				default:
					t.Error(a)
					return
				}
			}
		})
	}
	<-enough
	if err := r.Stop(); err != nil {
		t.Error(err)
	}
	done.Wait()
	witness.want(t, "GET", items+"/a", "", 200, strconv.FormatInt(acknowledged.Load(), 10))
}

func TestStartRefusesInOneSentence(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	for name, env := range map[string]map[string]string{
		"no database":               {"DATABASE_URL": ""},
		"pooler without its flag":   {"DB_POOLER": "transaction"},
		"timeouts do not grow":      {"BULK_TIMEOUT": "10s"},
		"bulk takes the pool":       {"BULK_IN_FLIGHT": "4"},
		"groups take the pool":      {"COALESCE_IN_FLIGHT": "2"},
		"no long batches":           {"BULK_IN_FLIGHT": "0"},
		"a size that is none":       {"MAX_BODY": "much"},
		"a pool that is too little": {"DB_MAX_OPEN_CONNS": "6"},
	} {
		full := map[string]string{"DATABASE_URL": dsn, "HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0"}
		maps.Copy(full, env)
		var cfg app.Config
		err := config.Load(&cfg, full)
		if err == nil {
			_, err = app.New(t.Context(), cfg, app.Process{Output: io.Discard})
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if password != "" && strings.Contains(err.Error(), password) {
			t.Errorf("%s: the error holds the password", name)
		}
	}
}

func TestStartRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	apptest.Execute(t, apptest.Open(t, dsn), `INSERT INTO iidy.goose_db_version (version_id, is_applied) VALUES (99999, true)`)
	a, err := app.New(t.Context(), apptest.Config[app.Config](t, dsn), app.Process{Output: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); err == nil || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("got %v", err)
	}
}
