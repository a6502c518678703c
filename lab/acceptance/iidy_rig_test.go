package acceptance

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
)

// iidy runs n replicas of iidy on the database; variables go over the defaults.
func iidy(t *testing.T, n int, dsn string, variables map[string]string) *local.Set {
	t.Helper()
	return localtest.Start(t, n, local.Spec{Service: "iidy", Path: localtest.Binary(t, "iidy")}, dsn, variables)
}

// lists speaks text to a replica of iidy. It is for many goroutines at once.
type lists struct {
	t    *testing.T
	http *http.Client
	base string
}

func newLists(t *testing.T, addr string) *lists {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 2 * time.Second}
	t.Cleanup(tr.CloseIdleConnections)
	return &lists{t: t, http: &http.Client{Transport: tr, Timeout: 5 * time.Minute}, base: "http://" + addr + "/iidy/v1"}
}

// reply is what came of a call.
type reply struct {
	status int // 0 when there was none
	header http.Header
	body   string
}

func (l *lists) do(method, path string, body io.Reader) reply {
	l.t.Helper()
	req, err := http.NewRequestWithContext(l.t.Context(), method, l.base+path, body)
	if err != nil {
		l.t.Error(err)
		return reply{}
	}
	resp, err := l.http.Do(req)
	if err != nil {
		return reply{body: err.Error()}
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return reply{body: err.Error()}
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

// count sends a change and reads how much it changed: "ADDED 8".
func (l *lists) count(method, path string, body io.Reader) (int64, error) {
	l.t.Helper()
	r := l.do(method, path, body)
	_, number, _ := strings.Cut(strings.TrimSuffix(r.body, "\n"), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || r.status >= http.StatusMultipleChoices {
		return 0, fmt.Errorf("%s %s: %d %.200q", method, path, r.status, r.body)
	}
	return n, nil
}

// want demands a count.
func (l *lists) want(method, path string, body io.Reader, want int64) {
	l.t.Helper()
	if n, err := l.count(method, path, body); err != nil || n != want {
		l.t.Errorf("%s %s: %d, want %d (%v)", method, path, n, want, err)
	}
}

// appendItem appends the name of item i, which has seven digits. A million names are made in a moment, which fmt needs half a minute
// for when it is built with the race detector.
func appendItem(to []byte, i int) []byte {
	const sevenDigits = 10_000_000
	at := len(to) + len("files")
	to = strconv.AppendInt(append(to, "files"...), int64(sevenDigits+i), 10)
	to[at] = '/'
	return to
}

// appendLine appends the line of item i of n, in order or from behind.
func appendLine(to []byte, i, n int, back bool) []byte {
	if back {
		i = n - 1 - i
	}
	return append(appendItem(to, i), ".tar.gz\n"...)
}

// itemsOf are the items of a page, a line each.
func itemsOf(page string) string {
	var items strings.Builder
	for line := range strings.Lines(page) {
		items.WriteString(line[:strings.LastIndexByte(line, ' ')])
		items.WriteByte('\n')
	}
	return items.String()
}

// upload streams n items, without holding them. Nobody can say how long it is.
func upload(n int, back bool) io.Reader {
	r, w := io.Pipe()
	go func() {
		var chunk []byte
		for i := range n {
			chunk = appendLine(chunk, i, n, back)
			if len(chunk) > 60<<10 || i == n-1 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
				chunk = chunk[:0]
			}
		}
		_ = w.Close()
	}()
	return r
}

// hurryDeadlocks makes the server look for deadlocks of a database at once; see deadlocks for how many there were.
func hurryDeadlocks(t *testing.T, dsn string) {
	t.Helper()
	if _, err := dial(t, dsn).ExecContext(t.Context(), //nolint:forbidigo // a setting, which may be made twice
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = ''5ms''', current_database()); END $$`); err != nil {
		t.Fatal(err)
	}
}
