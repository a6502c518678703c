package prove

import (
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
		if len(r.Failures()) != 1 {
			t.Errorf("%s: %v", name, r.Failures())
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
	if len(Bugs()) != 8 {
		t.Errorf("%d bugs", len(Bugs()))
	}
}
