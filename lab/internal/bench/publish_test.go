package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// measured returns the report of a bench of two scenarios and a sweep.
func measured() *Report {
	one := func(figures Figures) []Result { return []Result{{Figures: figures}} }
	r := &Report{
		Started: time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC), Version: "abc", Machine: "a machine",
		Options: Options{Service: services.Payments, Runs: 3, Duration: time.Second},
		Scenarios: []Scenario{
			{Name: "base", Anchor: true, Title: "bare pgbench", Runs: one(Figures{perSecond: 8123.4, errorCount: 0})},
			{
				Name: "new", Title: "new keys", Baseline: "base", Bars: Figures{perSecond: 0.6}, Limits: Figures{p99: 50},
				Runs: one(Figures{perSecond: 4061.7, p50: 5.123, p99: 41, errorCount: 2, othersCPU: 2.6}),
			},
			{Name: "left", Title: "left out", Bars: Figures{perSecond: 1}},
			{Name: "sweep-1-0", Series: "pgbench", Callers: 1, Runs: one(Figures{perSecond: 1000, p50: 1, p99: 2})},
			{
				Name: "sweep-1-1", Series: "payments", Callers: 1, Baseline: "sweep-1-0",
				Runs: one(Figures{perSecond: 500, p50: 2, p99: 20_000}),
			},
			{Name: "sweep-4-0", Series: "pgbench", Callers: 4, Runs: one(Figures{perSecond: 3000, p50: 1.5, p99: 4})},
		},
	}
	r.summarize()
	return r
}

// A saved report that is published replaces the section of its service, and nothing else of the page.
func TestPublish(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, err := measured().Save(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	report, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, "docs", "performance.md")
	const other = "<!-- bench counts -->\nof counts\n<!-- end of bench -->\n"
	const text = "# Performance\n\n" + other + "before\n<!-- bench payments -->\nold\n<!-- end of bench -->\nafter\n"
	if err := write(page, []byte(text)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time changes nothing
		if err := report.Publish(page); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const want = "# Performance\n\n" + other + `before
<!-- bench payments -->
Medians of 3 runs of 1s each, 23 November 2026; a machine; revision abc. Other programs used up to
3% of the machine.

| | per second | anchor | x anchor | p50 | p99 | errors | goal |
| --- | --- | --- | --- | --- | --- | --- | --- |
| new keys | 4,060 | 8,120 (base) | 0.5 | 5.12 ms | 41 ms | 2 | at least 0.6 x (**missed**), p99 at most 50 ms |

![payments and pgbench: throughput and latency by the number of callers](performance/payments.svg)

| callers | pgbench | p50 | p99 | payments | x pgbench | p50 | p99 |
| --- | --- | --- | --- | --- | --- | --- | --- |
| 1 | 1,000/s | 1 ms | 2 ms | 500/s | 0.5 | 2 ms | 20,000 ms |
| 4 | 3,000/s | 1.5 ms | 4 ms |  |  |  |  |
<!-- end of bench -->
after
`
	if string(got) != want {
		t.Errorf("the page is\n%s\nwant\n%s", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "docs", "performance", "payments.svg")); err != nil {
		t.Error(err)
	}
	if err := write(page, []byte("no section\n")); err != nil {
		t.Fatal(err)
	}
	if err := report.Publish(page); err == nil || !strings.Contains(err.Error(), "<!-- bench payments -->") {
		t.Errorf("a page without the section: %v", err)
	}
}

// The plot is well-formed, and no point lies outside its panel, whatever was measured.
func TestPlot(t *testing.T) {
	t.Parallel()
	svg := measured().plot()
	decoder := xml.NewDecoder(strings.NewReader(string(svg)))
	points := 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "circle" {
			continue
		}
		points++
		for _, attr := range start.Attr {
			y, err := strconv.ParseFloat(attr.Value, 64)
			if attr.Name.Local == "cy" && (err != nil || y < panelTop || y > panelTop+panelHeight) {
				t.Errorf("a point lies at %s", attr.Value)
			}
		}
	}
	if points != 9 { // three figures of three measured points
		t.Errorf("the plot has %d points", points)
	}
	if n := len(svg); n > 8<<10 {
		t.Errorf("it has %d bytes", n)
	}
}

func TestSignificant(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0", 0.04567: "0.0457", 0.5: "0.5", 9.123: "9.12", 99.96: "100", 723.4: "723", 999.6: "1,000", 1000: "1,000",
		25_349: "25,300", 1_714_793: "1,710,000",
	} {
		if got := significant(v); got != want {
			t.Errorf("%g is printed %s, want %s", v, got, want)
		}
	}
}
