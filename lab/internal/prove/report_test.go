package prove

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func proven() *Report {
	const l = 8 * time.Second
	w := &WindowResult{Window: Window{Name: "kill", For: l, Events: []Event{{At: time.Second, Action: Kill}}}, To: l}
	c := ColumnResult{Service: "counts", Done: map[Action]int{Kill: 1}}
	ops := make([]Op, 0, 201)
	for i := range 200 {
		ops = append(ops, op(i*10, i*10+5, OK, countInput{1}, int64(i+1)))
	}
	ops = append(ops, Op{Outcome: Unknown, Code: "lost", Call: time.Second, Return: 2 * time.Second})
	c.count(ops)
	c.timeline(ops)
	c.Checks = append([]Check{check("linearizable", true, "fine")}, w.demands(c)...)
	c.Sometimes = w.sometimes(c)
	w.Columns = []ColumnResult{c}
	return &Report{Seed: 1, Replicas: 3, Windows: []*WindowResult{w}}
}

// The verdict fails for each thing that can be wrong, and for nothing else.
func TestVerdict(t *testing.T) {
	t.Parallel()
	if f := proven().Failures(); len(f) != 0 {
		t.Fatalf("a run in which everything held: %v", f)
	}
	for name, spoil := range map[string]func(r *Report, c *ColumnResult){
		"a check":              func(_ *Report, c *ColumnResult) { c.Checks[0].OK = false },
		"a fault had no place": func(_ *Report, c *ColumnResult) { c.Sometimes[0].OK = false },
		"a leak":               func(r *Report, _ *ColumnResult) { r.After = []Check{check("goroutines", false, "many")} },
		"deadlocks":            func(r *Report, _ *ColumnResult) { r.Windows[0].Name, r.Windows[0].Deadlocks = "none", 1 },
		"the run broke":        func(r *Report, _ *ColumnResult) { r.Broken = "something" },
		"no window":            func(r *Report, _ *ColumnResult) { r.Windows = nil },
	} {
		r := proven()
		spoil(r, &r.Windows[0].Columns[0])
		f := r.Failures()
		if len(f) != 1 {
			t.Fatalf("%s: %v", name, f)
		}
		if byItself := name == "the run broke" || name == "no window"; f[0].OfRun() != byItself {
			t.Errorf("%s: a failure of the run itself: %t", name, f[0].OfRun())
		}
	}
}

func TestWindowsDemandAnEffect(t *testing.T) {
	t.Parallel()
	for _, s := range shapes() {
		w := s.window(1, 20*time.Second, 1)
		idle := ColumnResult{Service: "events", OK: 1000, Done: map[Action]int{}}
		idle.Sometimes = w.sometimes(idle)
		if missed := (&WindowResult{Window: w, Columns: []ColumnResult{idle}}).missed(); (missed == "") != (w.Name == "none") {
			t.Errorf("%s: nothing was done, and what is missed is %q", w.Name, missed)
		}
		idle.OK = 0
		idle.Sometimes = w.sometimes(idle)
		if (&WindowResult{Window: w, Columns: []ColumnResult{idle}}).missed() == "" {
			t.Errorf("%s: nobody was served, and nothing is missed", w.Name)
		}
	}
	noticed := ColumnResult{Service: "counts", NotApplied: 1}
	for _, name := range []string{"none", "term"} {
		ok := true
		for _, c := range (Window{Name: name}).demands(noticed) {
			ok = ok && c.OK
		}
		if ok {
			t.Errorf("%s: a client that noticed is no failure", name)
		}
	}
	if c := (Window{Name: "kill"}).demands(ColumnResult{Slowest: time.Minute}); c[0].OK {
		t.Error("a minute is no hang")
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	for _, broken := range []bool{false, true} {
		r := proven()
		want := "Everything that was promised held."
		if broken {
			r.Windows[0].Columns[0].Checks[0] = check("linearizable", false, "<b>key</b>")
			want = "1 of the checks failed."
		}
		var b strings.Builder
		if err := r.WritePage(&b); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if !strings.Contains(text, want) || !strings.Contains(text, "<svg") || strings.Contains(text, "<b>key") {
			t.Errorf("broken %t: the page lacks %q or is not escaped", broken, want)
		}
		for _, foreign := range []string{"http://", "https://", "src=\"", "href=\""} {
			if strings.Contains(text, foreign) {
				t.Errorf("the page needs something from elsewhere: %s", foreign)
			}
		}
		var table strings.Builder
		if err := r.WriteTable(&table); err != nil || strings.Contains(table.String(), "FAILS") != broken {
			t.Errorf("%v\n%s", err, table.String())
		}
	}
}

// A bug is caught by a failure that it causes, in its window, and by no other.
func TestCaughtBy(t *testing.T) {
	t.Parallel()
	bug := Bug{Service: "counts", Window: "kill", Checks: []string{linearizable}}
	sound := proven()
	if f := bug.CaughtBy(sound); f != nil {
		t.Errorf("a run in which everything held: %+v", f)
	}
	r := proven()
	r.Windows[0].Columns[0].Checks[0].OK = false
	if f := bug.CaughtBy(r); f == nil || f.Check != linearizable {
		t.Errorf("caught by %+v", f)
	}
	r.Windows[0].Name = "term"
	if f := bug.CaughtBy(r); f != nil {
		t.Errorf("caught in another window: %+v", f)
	}
	r = proven()
	r.Broken = "the replicas do not start"
	if f := bug.CaughtBy(r); f != nil {
		t.Errorf("a run that broke is no catch: %+v", f)
	}
	r.Windows[0].Name, r.Windows[0].Deadlocks = "none", 3
	if f := (Bug{Service: "counts", Window: "none", Checks: []string{deadlocks}}).CaughtBy(r); f == nil {
		t.Error("deadlocks are not caught")
	}
	r.Uncounted = "dark"
	for _, bug := range Bugs() {
		if why := bug.Unseen(r); (why == "dark") != (bug.Tag == "bug_unordered") {
			t.Errorf("%s: it cannot be seen: %q", bug.Tag, why)
		}
	}
	if len(Bugs()) != 8 {
		t.Errorf("%d bugs", len(Bugs()))
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	w := Window{Name: windowRestart}
	c := ColumnResult{Done: map[Action]int{RestartDB: 2, Backend: 9}}
	if !w.readiness(c, 2).OK || w.readiness(c, 3).OK {
		t.Errorf("two outages: %+v, %+v", w.readiness(c, 2), w.readiness(c, 3))
	}
}

// A service that takes no part in a window leaves its cell empty, and the others where they belong.
func TestCells(t *testing.T) {
	t.Parallel()
	w := pageWindow{WindowResult: &WindowResult{}, Columns: []pageColumn{{ColumnResult: ColumnResult{Service: "events"}}}}
	cells := w.cells([]string{"counts", "events", EventsOnMariaDB})
	if len(cells) != 3 || cells[0] != nil || cells[1].Service != "events" || cells[2] != nil {
		t.Errorf("%+v", cells)
	}
	w.LeftOut = []LeftOut{{"counts", "why"}}
	if cells = w.cells([]string{"counts", "events"}); cells[0] == nil || cells[0].LeftOut != "why" || cells[1].LeftOut != "" {
		t.Errorf("%+v", cells)
	}
}

func TestLiveLine(t *testing.T) {
	t.Parallel()
	w := Window{Name: windowKill, For: 8 * time.Second, Events: []Event{{At: 2 * time.Second, Action: Kill}}}
	c := &column{service: Service{Name: "counts"}}
	h := NewHistory(time.Now())
	h.Add(op(0, 1, OK, nil, nil))
	h.Add(op(0, 1, Unknown, nil, nil))
	columns, histories := []*column{c, {}}, map[*column]*History{c: h}
	if got, want := w.live(time.Second, columns, histories), "kill 1 of 8 s, no fault yet | counts 1 ok, 1 open"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := w.live(3*time.Second, columns, histories); !strings.Contains(got, ", kill -9 |") {
		t.Errorf("%q", got)
	}
}

// A column on MariaDB takes part where nothing stands between it and its server.
func TestTakesPart(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		w := Window{Name: name}
		if !w.takesPart(&column{}) {
			t.Errorf("%s: a service on PostgreSQL takes no part", name)
		}
		if want := slices.Contains([]string{"none", "kill", "term", "backends", "restart"}, name); w.takesPart(&column{maria: &maria{}}) != want {
			t.Errorf("%s: on MariaDB it should be %t", name, want)
		}
	}
}
