package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/lab/internal/prove"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// chromium returns a function that opens a page, whose result waits for the page and returns its elements. Without
// Chromium it skips the test.
func chromium(t *testing.T) (open func(args ...string) (wait func() string)) {
	t.Helper()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: the page was not opened")
	}
	return func(args ...string) func() string {
		var dom, log strings.Builder
		cmd := exec.CommandContext(t.Context(), browser, append([]string{
			"--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
			"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--user-data-dir=" + t.TempDir(),
			"--hide-scrollbars", "--dump-dom",
		}, args...)...)
		cmd.Stdout, cmd.Stderr = &dom, &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() string {
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, &log)
			}
			return dom.String()
		}
	}
}

// look notes what a reader sees of the report: how many cells there are, how far down they reach, what the first that
// fails opens, and how much wider than the window or a phone the page is.
const look = `<script>
	const matrix = document.getElementById("matrix"), phone = document.createElement("iframe");
	const over = (page) => page.documentElement.scrollWidth - page.documentElement.clientWidth;
	const seen = { cells: matrix.querySelectorAll("td button").length, over: over(document),
		low: matrix.getBoundingClientRect().bottom > 800 };
	phone.width = 390;
	phone.sandbox = "allow-same-origin";
	phone.srcdoc = document.documentElement.outerHTML;
	phone.onload = () => {
		seen.phone = over(phone.contentDocument);
		matrix.querySelector("td .fails").click();
		seen.opened = document.querySelector(":popover-open")?.innerText;
		document.body.append("seen: " + JSON.stringify(seen));
	};
	document.body.append(phone);
</script>`

// TestReportPage opens the report of a usual run of all services in a browser: its grid fits the screen, each cell
// opens its history, and the page fits a phone.
func TestReportPage(t *testing.T) {
	t.Parallel()
	open := chromium(t)
	windows, err := prove.Schedule(1, shortestWindow, nil)
	if err != nil {
		t.Fatal(err)
	}
	report := &prove.Report{Services: append(targets.Names(), prove.EventsOnMariaDB)}
	for _, w := range windows {
		result := &prove.WindowResult{Window: w}
		for _, name := range report.Services {
			result.Services = append(result.Services, prove.ServiceResult{
				Service: name, OK: 12345, Unknown: 67, P99: 1234 * time.Millisecond,
				Checks: []prove.Check{{Name: "sums", OK: w.Name != "kill", Detail: "3 differ"}},
				Lost:   []prove.Moment{{At: time.Second, Took: 89 * time.Millisecond, What: "a-lost-change"}},
			})
		}
		report.Windows = append(report.Windows, result)
	}

	dir := t.TempDir()
	if err := saveProof(report, dir); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "proof.html")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(page, look...), 0o600); err != nil {
		t.Fatal(err)
	}

	dom := open("--window-size=1280,800", "file://"+file)()
	seen := dom[strings.LastIndex(dom, "</iframe>"):]
	cells := fmt.Sprintf(`{"cells":%d,`, len(windows)*len(report.Services))
	for _, want := range []string{cells, `"over":0,`, `"low":false,`, `"phone":0,`, "sums", "a-lost-change", "kill -9"} {
		if !strings.Contains(seen, want) {
			t.Errorf("the reader sees %s, want %s", seen, want)
		}
	}
}
