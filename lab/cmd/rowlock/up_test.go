package main

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// table holds what up printed.
type table struct {
	url, docs string
	replicas  map[string]int    // process ids by name
	try       map[string]string // what there is to try of each service
}

var (
	rowPattern     = regexp.MustCompile(`(?m)^counts +(http://127\.0\.0\.1:\d+) +(http://127\.0\.0\.1:\d+/docs) `)
	replicaPattern = regexp.MustCompile(`(counts-\d+): process (\d+), metrics at (http://\S+)`)
	tryPattern     = regexp.MustCompile(`(?m)^ {2}((?:curl|printf) .*)$`)
)

func readTable(t *testing.T, r *rowlock) table {
	t.Helper()
	r.await("Ctrl-C stops everything.")
	out := r.output()
	row, try := rowPattern.FindStringSubmatch(out), tryPattern.FindAllStringSubmatch(out, -1)
	if row == nil || try == nil {
		t.Fatalf("no table in:\n%s", out)
	}
	tab := table{url: row[1], docs: row[2], try: map[string]string{}, replicas: map[string]int{}}
	for i, service := range targets.Names() { // of as many as run
		if i < len(try) {
			tab.try[service] = try[i][1]
		}
	}
	for _, m := range replicaPattern.FindAllStringSubmatch(out, -1) {
		pid, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		tab.replicas[m[1]] = pid
		if status, body, _ := get(t, m[3]); status != http.StatusOK ||
			!strings.Contains(body, "# TYPE ") {
			t.Errorf("%s: %d", m[3], status)
		}
	}
	return tab
}

// TestUp follows a system from its start to its end, and to the next start.
func TestUp(t *testing.T) {
	t.Parallel()
	data := filepath.Join(folder(t), "data")
	r := start(t, nil, "up", "--replicas", "2", "--data", data)
	tab := readTable(t, r)
	if len(tab.replicas) != 2 || len(tab.try) != len(targets.All()) {
		t.Fatalf("replicas %v, want 2; to try %v, want one line of each service", tab.replicas, tab.try)
	}

	pasteWhatIsPrinted(t, tab)
	runTour(t, tab.url)
	if status, body, _ := get(t, tab.docs); status != http.StatusOK || !strings.Contains(body, "<html") {
		t.Errorf("%s: %d %.80s", tab.docs, status, body)
	}

	t.Log("the replicas run with the role that may change rows only")
	want := strings.Join(targets.Names(), "_app,") + "_app"
	if got := users(t, superuser(t, data)); got != want {
		t.Errorf("the replicas are connected as %q", got)
	}

	killAReplica(t, r, tab)
	killPostgres(t, r, tab)

	t.Log("Ctrl-C stops everything, in order, with nothing left")
	below := descendants(t, r.cmd.Process.Pid)
	if len(below) < 5 {
		t.Fatalf("processes %v: there should be 2 replicas, their guards and PostgreSQL", below)
	}
	r.signal(syscall.SIGINT)
	if status := r.end(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	allGone(t, below)
	last := -1
	for _, line := range []string{"Stopping 2 replicas of counts", "Stopping PostgreSQL", "All stopped."} {
		at := strings.Index(r.output(), line)
		if at < last || at < 0 {
			t.Errorf("%q is missing or out of order", line)
		}
		last = at
	}

	t.Log("the next start finds everything as it was")
	r = start(t, nil, "up", "--replicas", "1", "--data", data)
	tab = readTable(t, r)
	if _, body, _ := get(t, tab.url+"/api/v1/internal/counts/apples"); !strings.Contains(body, `"currentValue":`) {
		t.Errorf("apples are gone: %s", body)
	}
	if got := shell(t, tab.try[targets.Payments]); !strings.Contains(got, "Idempotent-Replayed: true") {
		t.Errorf("a payment before the restart is not repeated, so the secret has changed: %s", got)
	}
	if secret, err := os.Stat(filepath.Join(data, "fingerprint-secret")); err != nil || secret.Mode().Perm() != 0o600 {
		t.Errorf("the secret of payments: %v, %v", secret, err)
	}
	survivesKill9(t, r, data)
}

// folder returns a temporary folder that PostgreSQL can enter when root runs the tests and another user the server.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

// killAReplica kills one replica while requests come, and waits until it is back.
func killAReplica(t *testing.T, r *rowlock, tab table) {
	t.Helper()
	t.Log("a replica that dies is named and started again, and the service goes on")
	if err := syscall.Kill(tab.replicas["counts-1"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.await(fmt.Sprintf("counts-1 (process %d) ended after", tab.replicas["counts-1"]))
	r.await("signal: killed; starting it again in")
	for range 10 { // while it is away, the other one answers
		if status, body, _ := call(t, http.MethodPost, tab.url+"/api/v1/counts/apples/increase"); status != http.StatusOK {
			t.Errorf("increase while a replica is away: %d %s", status, body)
		}
	}
	r.await("counts-1 is back (process ")
	r.until("counts-1 answers again", func() bool {
		_, _, header := get(t, tab.url+"/api/v1/internal/counts/apples")
		return header.Get("X-Served-By") == "counts-1"
	})
}

// killPostgres kills the database and waits until it is back.
func killPostgres(t *testing.T, r *rowlock, tab table) {
	t.Helper()
	t.Log("so is PostgreSQL")
	postmaster := 0
	below := descendants(t, r.cmd.Process.Pid)
	for _, pid := range slices.Sorted(maps.Keys(below)) {
		if strings.HasPrefix(below[pid], "(postgres)") {
			postmaster = pid // the first one started the others
			break
		}
	}
	_, before, _ := get(t, tab.url+"/api/v1/internal/counts/apples")
	if err := syscall.Kill(postmaster, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.await("PostgreSQL ended by itself; starting it again")
	r.await("PostgreSQL is back")
	r.until("the service is back with its data", func() bool {
		status, after, _ := get(t, tab.url+"/api/v1/internal/counts/apples")
		return status == http.StatusOK && after == before
	})
}

// survivesKill9 kills rowlock up itself and starts it again.
func survivesKill9(t *testing.T, r *rowlock, data string) {
	t.Helper()
	t.Log("kill -9 leaves nothing that is in the way of the next start")
	below := descendants(t, r.cmd.Process.Pid)
	r.signal(syscall.SIGKILL)
	r.end()
	r = start(t, nil, "up", "--replicas", "1", "--data", data)
	tab := readTable(t, r)
	allGone(t, below)
	if got := shell(t, tab.try["counts"]); !strings.Contains(got, `{"itemId":"apples","value":`) {
		t.Errorf("after the kill: %s", got)
	}
	t.Log("two at once in one folder are refused")
	second := start(t, nil, "up", "--data", data)
	if status := second.end(); status != exitError || !strings.Contains(second.output(), "--data") {
		t.Errorf("status %d: %s", status, second.output())
	}
	secondCtrlC(t, r, tab, data)
}

// secondCtrlC ends rowlock up while a request waits for a lock, which delays an orderly stop.
func secondCtrlC(t *testing.T, r *rowlock, tab table, data string) {
	t.Helper()
	t.Log("the second Ctrl-C does not wait")
	db := dbtest.Dial(t, superuser(t, data))
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	const lock = `SELECT FROM counts.count_values WHERE item_id = 'apples' FOR UPDATE`
	if _, err := tx.ExecContext(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	go func() { _, _, _, _ = try(t.Context(), http.MethodPost, tab.url+"/api/v1/counts/apples/increase") }()
	r.until("the increase waits for the row", func() bool {
		var waiting int
		const query = `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`
		err := db.QueryRowContext(t.Context(), query).Scan(&waiting)
		return err == nil && waiting > 0
	})
	below := descendants(t, r.cmd.Process.Pid)
	r.signal(syscall.SIGINT)
	r.await("Stopping 1 replica of counts")
	r.signal(syscall.SIGINT)
	if status := r.end(); status != exitKilled {
		t.Errorf("exit status %d, want %d", status, exitKilled)
	}
	allGone(t, below)
}

// superuser returns the URL that up has left for psql.
func superuser(t *testing.T, data string) string {
	t.Helper()
	url, err := os.ReadFile(filepath.Join(data, "database-url"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(url))
}

// users returns the roles that other clients are connected as.
func users(t *testing.T, dsn string) string {
	t.Helper()
	var names string
	const query = `SELECT string_agg(DISTINCT usename, ',') FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()`
	if err := dbtest.Dial(t, dsn).QueryRowContext(t.Context(), query).Scan(&names); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestUpOnAServerThatIsThere(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	r := start(t, map[string]string{"DATABASE_URL": dsn}, "up", "--replicas", "1", "--data", folder(t), "--service",
		"counts")
	tab := readTable(t, r)
	shell(t, tab.try["counts"])
	var value int
	err := dbtest.Dial(t, dsn).QueryRowContext(t.Context(), `SELECT current_value FROM counts.count_values`).Scan(&value)
	if err != nil || value != 1 {
		t.Errorf("value %d, %v", value, err)
	}
	r.signal(syscall.SIGTERM)
	if status := r.end(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if out := r.output(); strings.Contains(out, "Starting PostgreSQL") || strings.Contains(out, "Stopping PostgreSQL") {
		t.Error("it ran a server of its own too")
	}
}

// pasteWhatIsPrinted runs the lines that up prints, each as often as it has an expected output.
func pasteWhatIsPrinted(t *testing.T, tab table) {
	t.Helper()
	for _, s := range targets.All() {
		for i, want := range s.TryPrints {
			if got := shell(t, tab.try[s.Name]); !strings.Contains(got, want) {
				t.Errorf("%s: paste %d printed %s, want %s", s.Name, i+1, got, want)
			}
		}
	}
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/events`).FindString(tab.try["events"])
	waittest.Eventually(t, "a worker gives event 2 a value", func() bool {
		return shell(t, "curl -s "+address+"/2") != "{\"id\":2,\"value\":null}\n"
	})
}

// runTour runs the tour of README at the address of counts, and looks how it ends.
func runTour(t *testing.T, url string) {
	t.Helper()
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Tour\n")
	_, script, _ := strings.Cut(section, "\n```sh\n")
	script, _, _ = strings.Cut(script, "\n```\n")
	got := shell(t, strings.ReplaceAll(script, "http://127.0.0.1:8083", url))
	if !strings.Contains(got, `"currentValue":101`) {
		t.Errorf("README's tour ends with:\n%s", got)
	}
}
