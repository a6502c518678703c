package observe

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Metrics of all services; a series is named without the labels that say where it is from.
const (
	answers   = "http_server_request_duration_seconds"
	failures  = "http_server_requests_failed_total"
	waits     = "rowlock_lock_wait_seconds"
	conflicts = "rowlock_lock_conflicts_total"
	outcomes  = "rowlock_outcome_unknown_total"
	dbWaits   = "rowlock_db_wait_seconds_total"
)

// busy returns the series of a replica that fails, waits and conflicts as often as is usual, each with its values in
// promtool's notation: 0+6000x100 begins at 0 and grows by 6000 each minute, a hundred times.
func busy() map[string]string {
	return map[string]string{
		"up": "1x100", "rowlock_build_info": "1x100",
		answers + `_count{status="200"}`: "0+6000x100", answers + `_count{status="503"}`: "0+3x100",
		answers + `_bucket{status="200",le="0.2"}`: "0+5990x100", answers + `_bucket{status="200",le="2.5"}`: "0+5999x100",
		failures: "0+3x100", outcomes: "0x100", dbWaits: "0+6x100",
		waits + `_bucket{where="database",le="1"}`: "0+6000x100", waits + `_bucket{where="lane",le="1"}`: "0x100",
		waits + `_bucket{where="database",le="+Inf"}`: "0+6000x100", waits + `_bucket{where="lane",le="+Inf"}`: "0x100",
		waits + `_count{where="database"}`: "0+6000x100", waits + `_count{where="lane"}`: "0x100",
		conflicts + `{reason="lock_timeout"}`: "0+5x100",
	}
}

// unasked returns the series of a replica that starts at a minute and gets no request.
func unasked(minute int) map[string]string {
	series := busy()
	for name := range series {
		switch {
		case name == "up", name == "rowlock_build_info":
			series[name] = fmt.Sprintf("_x%d 1x100", minute)
		case strings.HasPrefix(name, answers): // begins with the first answer
			delete(series, name)
		default:
			series[name] = fmt.Sprintf("_x%d 0x100", minute)
		}
	}
	return series
}

// ended returns the series of a replica that served well and is gone after 50 minutes.
func ended() map[string]string {
	const asked = "0+600x50 stale"
	return map[string]string{
		"up": "1x50 stale", "rowlock_build_info": "1x50 stale", answers + `_count{status="200"}`: asked,
		answers + `_bucket{status="200",le="0.2"}`: asked, answers + `_bucket{status="200",le="2.5"}`: asked,
	}
}

// TestNoAlertFiresWhileAllIsWell gives the rules a release, blue, that is busy and is rolled out meanwhile, and one,
// idle, that is asked nothing.
func TestNoAlertFiresWhileAllIsWell(t *testing.T) {
	t.Parallel()
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("evaluation_interval: 1m\nrule_files: ['" + rules + "']\ntests:\n- interval: 1m\n  input_series:\n")
	write := func(series, values string) {
		_, _ = fmt.Fprintf(&text, "  - {series: '%s', values: '%s'}\n", series, values)
	}
	replica := func(release, service, pod string, figures map[string]string) {
		for name, values := range figures {
			metric, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
			write(fmt.Sprintf("%s{namespace=%q,app_kubernetes_io_instance=%q,app_kubernetes_io_name=%q,pod=%q,%s}",
				metric, namespace, release, service, pod, labels), values)
		}
	}
	for _, s := range subjects() {
		here, idle := busy(), unasked(0)
		maps.Copy(here, s.healthy)
		maps.Copy(idle, s.idle)
		replica("blue", s.service, "a", here)
		replica("blue", s.service, "new", unasked(40))
		replica("blue", s.service, "old", ended())
		replica("idle", s.service, "a", idle)
		for metric, values := range map[string]string{
			"status_current_replicas": "3x100", "spec_min_replicas": "2x100", "spec_max_replicas": "6x100",
		} {
			write(fmt.Sprintf("kube_horizontalpodautoscaler_%s{namespace=%q,horizontalpodautoscaler=%q}",
				metric, namespace, "blue-"+s.service), values)
		}
	}
	text.WriteString("  alert_rule_test:\n")
	for _, at := range []string{"20m", "45m", "52m", "95m"} {
		for _, r := range alertRules(t) {
			_, _ = fmt.Fprintf(&text, "  - {eval_time: %s, alertname: %s, exp_alerts: []}\n", at, r.Alert)
		}
	}
	file := filepath.Join(t.TempDir(), "healthy.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, ".", "test", "rules", file)
}
