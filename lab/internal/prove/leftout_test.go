package prove

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// On a server of others exactly the window that needs its owner is left out, for whoever
// is on that server, and for nobody on a private one.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	windows, err := Schedule(1, 8*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	guest := &column{service: Service{Name: serviceCounts}, guest: true}
	private := &column{service: Service{Name: serviceCounts}}
	onMaria := &column{service: Service{Name: EventsOnMariaDB}, maria: &maria{}}
	for _, w := range windows {
		restart := w.Name == windowRestart
		var want []LeftOut
		if restart {
			want = []LeftOut{{serviceCounts, needsOwner}}
		}
		for name, c := range map[string]struct {
			columns []*column
			want    []LeftOut
			all     bool
		}{
			"private":              {[]*column{private, onMaria}, nil, false},
			"guest":                {[]*column{guest}, want, restart},
			"guest, and a MariaDB": {[]*column{guest, onMaria}, want, false},
		} {
			out, all := (&rig{columns: c.columns}).leftOut(w)
			if !slices.Equal(out, c.want) || all != c.all {
				t.Errorf("%s, %s: left out %v, all %t", w.Name, name, out, all)
			}
		}
		if w.takesPart(guest) == restart {
			t.Errorf("%s: a guest takes part: %t", w.Name, w.takesPart(guest))
		}
	}
}

// What is left out is said everywhere, is no missed demand, and proves nothing.
func TestLeftOutIsSaid(t *testing.T) {
	t.Parallel()
	restart := Window{Name: windowRestart, Owner: true, Events: []Event{{At: time.Second, Action: RestartDB}}}
	out := restart.omit([]LeftOut{{"counts", needsOwner}, {"iidy", needsOwner}}, time.Second)
	if missed := out.missed(); missed != "" {
		t.Errorf("it is missed: %s", missed)
	}
	if f := (&Report{Windows: []*WindowResult{out}}).Failures(); len(f) != 1 || f[0].Detail != "none was run" {
		t.Errorf("a run of nothing but a left-out window: %v", f)
	}
	r := proven()
	r.Windows = append(r.Windows, out)
	r.Server, r.Notes, r.LeftBehind = "PostgreSQL 16 at db:5432", []string{"<b>dark</b>"}, []string{"rowlock_prove_a", "rowlock_prove_b"}
	if f := r.Failures(); len(f) != 0 {
		t.Errorf("%v", f)
	}
	lines := []string{"window restart, left out of counts, iidy: needs to own the server", "<b>dark</b>"}
	if got := r.Missing(); !slices.Equal(got, lines) {
		t.Errorf("missing %v, want %v", got, lines)
	}
	if got, want := out.line(), "restart    left out of counts, iidy: needs to own the server"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := restart.AsGuest(), restart.String()+" left out on PostgreSQL: "+needsOwner; got != want {
		t.Errorf("the schedule says %q", got)
	}
	if got, want := r.Windows[0].AsGuest(), r.Windows[0].String(); got != want {
		t.Errorf("the schedule says %q, want %q", got, want)
	}
	if raw, err := json.Marshal(out); err != nil || !strings.Contains(string(raw), `"columns":[]`) {
		t.Errorf("%s, %v", raw, err)
	}
	var page, table strings.Builder
	if err := r.WritePage(&page); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"on PostgreSQL 16 at db:5432", `<li>window restart, left out of counts, iidy: needs to own the server</li><li>&lt;b&gt;dark`,
		`<td class="left-out">left out: needs to own the server</td>`, "rowlock_prove_a, rowlock_prove_b.",
		"restart: left out</summary>", "<p>Schedule, left out: ", "<th>iidy</th>",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if n := strings.Count(page.String(), "<h3>counts</h3><svg"); n != 1 {
		t.Errorf("the page has %d charts of counts", n)
	}
	// One band and one fault, of the window that was run, in the chart of the one service that took part.
	for _, what := range []string{`<rect class="band`, `<line class="event"`} {
		if n := strings.Count(string(r.chart("counts")), what); n != 1 {
			t.Errorf("the chart of counts has %s %d times", what, n)
		}
	}
	if strings.Contains(string(r.chart("iidy")), `<line class="event"`) {
		t.Error("the chart of iidy shows a fault that it did not see")
	}
	if n := strings.Count(table.String(), "left out"); n != 2 || !strings.Contains(table.String(), needsOwner) {
		t.Errorf("the table:\n%s", table.String())
	}
}
