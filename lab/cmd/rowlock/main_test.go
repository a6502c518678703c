package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localmaria"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

func TestHelp(t *testing.T) {
	t.Parallel()
	for line, wants := range map[string][]string{
		"":             {"Usage:", "mutation-test", "with-postgres"},
		"up --help":    {"--replicas", "--data", "--service", "DATABASE_URL"},
		"check --help": {"--counts URL", "TRACEPARENT"},
		"version":      {"rowlock "},
	} {
		status, said := runHere(t, nil, line)
		for _, want := range wants {
			if status != exitOK || !strings.Contains(said, want) {
				t.Errorf("rowlock %s: status %d, said %s, want it to contain %s", line, status, said, want)
			}
		}
	}
}

// Each command has one example, which its flags and arguments allow.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, cmd := range newRoot(process{}).Commands() {
		words := strings.Fields(cmd.Example)
		if len(words) < 2 || words[0] != "rowlock" || words[1] != cmd.Name() || strings.Contains(cmd.Example, "\n") {
			t.Errorf("%s has the example %q, want a line that begins with rowlock %[1]s", cmd.Name(), cmd.Example)
			continue
		}
		if err := cmd.ParseFlags(words[2:]); err != nil {
			t.Errorf("%s: %v", cmd.Example, err)
		}
		if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
			t.Errorf("%s: %v", cmd.Example, err)
		}
	}
}

// A wrong command line has an exit status of its own, and what cannot be done has another one. Both say why.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for status, lines := range map[int]map[string]string{
		exitUsage: {
			"dance":                        `unknown command "dance"; see rowlock --help`,
			"up --replicas 0":              "--replicas 0 is not between 1 and 40",
			"up --replicas x":              "invalid argument",
			"up counts":                    `rowlock: up: unexpected argument "counts"`,
			"up --service tea":             `there is no service "tea"; the services are counts`,
			"up --fresh":                   "--fresh empties the private PostgreSQL, but DATABASE_URL",
			"with-postgres":                "needs a command",
			"prove --replicas 1":           "--replicas",
			"prove --faults storm":         `"storm"`,
			"prove --for 10s":              "--for 2m16s or longer",
			"prove --dsn=":                 "prove: --dsn is empty",
			"prove --dsn mysql://u:p@h/db": "prove: --dsn: it is no URL",
			"prove postgres://u:p@h/db":    "a URL must follow its flag",
			"prove --dsn postgres://u@h/db --faults restart":    "only the owner of the server",
			"prove --faults citus --service events":             "no chosen service takes part",
			"prove --faults citus --service counts --for 1m20s": "need --for 1m28s",
			"bench counts uniform":                              `rowlock: bench: unexpected argument "uniform"`,
			"bench counts --runs 0":                             "runs",
			"bench counts --only x --runs 0":                    `"x"`,
			"bench counts --duration 10ms":                      "duration",
			"bench counts --fast":                               "--fast",
			"mutation-test --mutant tea":                        `"tea"`,
			"mutation-test":                                     "go.work", // which is not here
			"check":                                             "at least one service",
			"check --gin=http://x":                              "unknown flag: --gin",
			"drive counts":                                      "drive needs a service (counts, events",
			"drive --rate=0 counts http://x":                    "drive: rate and clients must be at least 1",
			"drive gin http://x":                                `no service "gin"`,
			"bench iidy --only delete-8":                        "the scenario delete-8 needs add-8",
			"bench counts --peer x":                             "a peer is measured with iidy alone",
			"bench --quick --publish x.md":                      "--publish is for whole measurements",
			"bench payments --only replays":                     "the scenario replays needs new-keys",
			"check --iidy-internal=http://x":                    "unknown flag", // it has no internal API
		},
		exitError: {
			"with-postgres -- no-such-program":        `cannot run "no-such-program"`,
			"up --data /dev/null/x":                   "/dev/null",
			"up --service counts --data " + folder(t): "connection refused",
			"check --counts=http://127.0.0.1:1/":      "connection refused",
		},
	} {
		for line, want := range lines {
			environ := map[string]string{"DATABASE_URL": "postgres://127.0.0.1:1/x?sslmode=disable"}
			got, said := runHere(t, environ, line)
			if got != status || !strings.Contains(said, want) || strings.Contains(said, "Starting") {
				t.Errorf("rowlock %s: status %d, want %d; said %q, want it to contain %s", line, got, status, said, want)
			}
		}
	}
}

// runHere runs a command within the test and returns its exit status and what it printed.
func runHere(t *testing.T, environ map[string]string, line string) (status int, said string) {
	t.Helper()
	var out bytes.Buffer
	p := process{environ: environ, stdin: strings.NewReader(""), stdout: &out, stderr: &out, hurry: t.Context()}
	status = run(t.Context(), p, strings.Fields(line))
	return status, out.String()
}

// A check takes its parent from the environment and passes it on as OTEL_PROPAGATORS says.
func TestCheckPropagates(t *testing.T) {
	t.Parallel()
	const parent = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1"
	var sent atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent.Store(r.Header.Get("B3"))
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	runHere(t, map[string]string{"OTEL_PROPAGATORS": "b3", "B3": parent}, "check --counts="+server.URL)
	if sent.Load() != parent {
		t.Errorf("it sent the header b3 %q, want %q", sent.Load(), parent)
	}
}

func TestWithPostgres(t *testing.T) {
	t.Parallel()
	none := map[string]string{dbtest.URLVariable: ""}
	t.Run("the command has a server, and its status is passed on", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "url")
		r := start(t, none, "with-postgres", "--", "sh", "-c",
			`printf %s "$ROWLOCK_TEST_DATABASE_URL" >"$0"; while [ -f "$0" ]; do sleep 0.05; done; exit 7`, file)
		var url []byte
		r.until("the command has an address", func() bool {
			url, _ = os.ReadFile(file)
			return len(url) > 0
		})
		var one int
		if err := dbtest.Dial(t, string(url)).QueryRowContext(t.Context(), `SELECT 1`).Scan(&one); err != nil {
			t.Fatal(err)
		}
		below := descendants(t, r.cmd.Process.Pid)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if status := r.end(); status != 7 {
			t.Errorf("exit status %d, want 7", status)
		}
		allGone(t, below)
	})
	t.Run("SIGTERM is passed on, a second one kills the command, and everything ends", func(t *testing.T) {
		t.Parallel()
		r := start(t, none, "with-postgres", "sh", "-c", `trap 'echo no' TERM; echo ready; while :; do sleep 0.05; done`)
		r.await("ready")
		below := descendants(t, r.cmd.Process.Pid)
		r.signal(syscall.SIGTERM)
		r.await("no\n")
		r.signal(syscall.SIGTERM)
		if status := r.end(); status != signalBase+int(syscall.SIGKILL) {
			t.Errorf("exit status %d", status)
		}
		allGone(t, below)
	})
	t.Run("a server that is named is used", func(t *testing.T) {
		t.Parallel()
		r := start(t, map[string]string{dbtest.URLVariable: "postgres://there/"}, "with-postgres",
			"sh", "-c", `echo "url=$ROWLOCK_TEST_DATABASE_URL"`)
		if status := r.end(); status != 0 || r.output() != "url=postgres://there/\n" {
			t.Errorf("status %d: %s", status, r.output())
		}
	})
}

// The bench of events, once through what differs from the other benches: two sizes, workers, MariaDB.
func TestBenchOfEvents(t *testing.T) {
	t.Parallel()

	dir := folder(t)
	// Without it the bench leaves MariaDB out; in CI it must not.
	_, err := localmaria.Start(t.Context(), localmaria.Options{Parent: dir + "/none"})
	if errors.Is(err, localmaria.ErrNotInstalled) && config.Environ()["CI"] != "true" {
		t.Skip(err)
	}

	r := start(t, nil, "bench", "events", "--quick", "--only", "claim-few,mariadb-work-4")
	if status := r.end(); status != 0 {
		t.Fatalf("it ended with status %d", status) // not 0 when a sum does not hold
	}
	if want := "MariaDB: work, 4 workers"; !strings.Contains(r.output(), want) {
		t.Errorf("the report has no %q", want)
	}
	if strings.Contains(r.output(), "round 1") {
		t.Error("the progress of the rounds is written into a pipe")
	}
}
