package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/services"
)

func TestMutationTestFlags(t *testing.T) {
	t.Parallel()
	var b bites
	if err := b.choose([]string{"bug_now", "bug_finish"}); err != nil || len(b.bugs) != 2 || b.bugs[1].Tag != "bug_finish" {
		t.Errorf("%+v, %v", b, err)
	}
	if err := b.choose(nil); err != nil || len(b.bugs) != len(prove.Bugs()) {
		t.Errorf("%d bugs, %v", len(b.bugs), err)
	}
	refused(t, "mutation-test --bug bug_tea", `"bug_tea"`)
	refused(t, "bites tea", `"tea"`)
	refused(t, "mutation-test", "go.work") // which is not here
}

// Every bug stands behind its tag in its service, or in platform, beside what is
// right; and all of them can be built.
func TestBugsAreBuilt(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	args := []string{"build", "-trimpath", "-tags", ""}
	for _, bug := range prove.Bugs() {
		with, without := 0, 0
		for _, folder := range []string{filepath.Join(root, "services", bug.Service, "internal"), filepath.Join(root, "platform")} {
			for _, pattern := range []string{"*/*.go", "*/*/*.go"} {
				paths, err := filepath.Glob(filepath.Join(folder, pattern))
				if err != nil {
					t.Fatal(err)
				}
				for _, path := range paths {
					text, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					with += strings.Count(string(text), "//go:build "+bug.Tag+"\n")
					without += strings.Count(string(text), "//go:build !"+bug.Tag+"\n")
				}
			}
		}
		if with != 1 || without != 1 {
			t.Errorf("%s: %d files with the bug and %d without", bug.Tag, with, without)
		}
		args[3] += bug.Tag + ","
	}
	for _, s := range services.All() {
		args = append(args, "github.com/rowlock/rowlock/services/"+s.Name+"/internal/app")
	}
	// All that can fail to compile, and from Go's cache what has not changed; programs would be linked each time.
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = root, append(cmd.Environ(), "CGO_ENABLED=0") // as make build, whose packages are in Go's cache
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestBitesTable(t *testing.T) {
	t.Parallel()
	bug := prove.Bugs()[0]
	caught := bite{bug: bug, caught: &prove.Failure{Check: "linearizable", Detail: strings.Repeat("x", 200)}, took: 7 * time.Second}
	missed := bite{bug: bug, took: time.Minute}
	failed := bite{bug: bug, err: errors.New("no server")}
	var b strings.Builder
	if err := writeBites(&b, []bite{caught, missed, failed}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, want := range []string{"caught by", "linearizable: xxx", "NOT CAUGHT", "no server"} {
		if i >= len(lines) || !strings.Contains(lines[i], want) || len(lines[i]) > 250 {
			t.Fatalf("line %d has no %q:\n%s", i, want, b.String())
		}
	}
	sound := &prove.Report{Windows: []*prove.WindowResult{{Columns: []prove.ColumnResult{{Service: "counts"}}}}}
	for name, tc := range map[string]struct {
		found []bite
		sound *prove.Report
		ok    bool
	}{
		"all are caught":                {[]bite{caught}, sound, true},
		"one is not":                    {[]bite{caught, missed}, sound, false},
		"the proof fails without a bug": {[]bite{caught}, &prove.Report{}, false},
	} {
		if err := verdictOfBites(io.Discard, tc.found, tc.sound, time.Second, 1); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a bug's run, or the one without a bug, could not give back ends bites with a failure
// that names it; what the server could not show is said once, and is no bug that was missed.
func TestBitesAsGuest(t *testing.T) {
	t.Parallel()
	good := func() *prove.Report {
		return &prove.Report{Windows: []*prove.WindowResult{{Columns: []prove.ColumnResult{{Service: "counts"}}}}, Notes: []string{"it is dark"}}
	}
	left := func(name string) error {
		return errors.Join(errors.New("no proof was saved"), leaveError{errors.New("still on the server: " + name)})
	}
	bugs := prove.Bugs()
	caught := bite{bug: bugs[0], caught: &prove.Failure{Check: "linearizable"}, report: good()}
	unseen := bite{bug: bugs[1], unseen: "deadlocks are not counted", report: good()}
	all := func(found []bite, sound bite) (string, error) {
		var said strings.Builder
		err := concludeBites(&said, found, sound, time.Second, 1)
		return said.String(), err
	}
	said, err := all([]bite{caught, unseen}, bite{report: good()})
	if err != nil || strings.Contains(said, "NOT CAUGHT") || !strings.Contains(said, "All 1 bugs that the server can show") ||
		!strings.Contains(said, bugs[1].Tag+" ("+bugs[1].What+") is left out: deadlocks are not counted") ||
		strings.Count(said, "Not part of this proof: it is dark.") != 1 {
		t.Errorf("%v\n%s", err, said)
	}
	if _, err := all([]bite{unseen}, bite{report: good()}); err == nil {
		t.Error("nothing was shown, and that is fine")
	}
	caught.err = left("rowlock_prove_a")
	_, err = all([]bite{caught, caught}, bite{report: good(), err: left("rowlock_prove_b")})
	if err == nil || strings.Count(err.Error(), "rowlock_prove_a") != 2 || !strings.HasSuffix(err.Error(), "rowlock_prove_b") {
		t.Errorf("it ends with %v", err)
	}
}
