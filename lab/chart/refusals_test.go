package chart

import (
	"strings"
	"testing"
)

// wantRefused demands that a chart with these values is refused, with the sentences.
func wantRefused(t *testing.T, chart, values string, want ...string) {
	t.Helper()
	_, err := template(t, helm4, chart, values)
	if err == nil {
		t.Errorf("%s is accepted", values)
		return
	}
	for _, sentence := range want {
		if !strings.Contains(err.Error(), sentence) {
			t.Errorf("%s is refused by %v, want %s", values, err, sentence)
		}
	}
}

// refusals reads a file of testdata/refused: lines of values, and under them, after a tab, the sentence that refuses
// them. Empty lines divide it into groups.
func refusals(t *testing.T, name string) (groups [][][2]string) {
	t.Helper()
	for text := range strings.SplitSeq(read(t, "testdata/refused/"+name), "\n\n") {
		var group [][2]string
		values := ""
		for line := range strings.Lines(text) {
			if sentence, ok := strings.CutPrefix(line, "\t"); ok {
				group = append(group, [2]string{strings.TrimSuffix(values, "\n"), strings.TrimSuffix(sentence, "\n")})
				values = ""
			} else if !strings.HasPrefix(line, "#") {
				values += line
			}
		}
		groups = append(groups, group)
	}
	return groups
}

// The schemas refuse wrong values with the name of the value, by either Helm. One rendering names all of them.
func TestTheSchemaRefuses(t *testing.T) {
	t.Parallel()
	for _, group := range refusals(t, "schema.txt") {
		var args []string
		for _, wrong := range group {
			args = append(args, "--set-json="+wrong[0])
		}

		for _, helm := range []string{helm3, helm4} {
			_, err := template(t, helm, umbrella, "", args...)
			if err == nil {
				t.Fatalf("%s: %v are accepted", helm, args)
			}
			for _, wrong := range group {
				if !strings.Contains(err.Error(), wrong[1]) {
					t.Errorf("%s: %s is not refused by %s, but %v", helm, wrong[0], wrong[1], err)
				}
			}
		}
	}
}

// What no schema can say is refused by the templates, with the name of the value.
func TestTheTemplatesRefuse(t *testing.T) {
	t.Parallel()
	const noAlert = ".RowlockSlw: no alert of rules/ has this name; those are RowlockBatchesSlow, "
	for values, want := range map[string]string{
		`counts: {config: {PGPORT: 5432}}`: `counts.config.PGPORT: the chart sets PGPORT by`,
		`global: {auht: {enabled: true}}`:  `global.auht: there is no such value`,

		"prometheusRule: {enabled: true, disabled: {RowlockSlw: true}}":       "prometheusRule.disabled" + noAlert,
		"prometheusRule: {enabled: true, overrides: {RowlockSlw: {for: 1m}}}": "prometheusRule.overrides" + noAlert,
	} {
		wantRefused(t, umbrella, values, want)
	}

	for _, group := range refusals(t, "templates.txt") {
		for _, wrong := range group {
			wantRefused(t, alone, wrong[0], wrong[1])
		}
	}
}

// Unusual values that are right are accepted.
func TestUnusualValuesAreAccepted(t *testing.T) {
	t.Parallel()
	for _, file := range glob(t, "testdata/accepted/*.yaml") {
		render(t, umbrella, read(t, file))
	}
}

// payments does not render without a secret unless bare fingerprints are allowed; the sentence names both ways. The
// environment of the replicas has what was chosen.
func TestPaymentsNeedASecret(t *testing.T) {
	t.Parallel()
	const empty = `secretEnv: {FINGERPRINT_SECRET: {existingSecret: ""}}`
	for _, more := range []string{
		"", "config: {ALLOW_BARE_FINGERPRINTS: false}", "extraEnv: [{name: ALLOW_BARE_FINGERPRINTS, value: 'no'}]",
	} {
		wantRefused(t, umbrella, "payments: {"+empty+", "+more+"}",
			"payments.secretEnv.FINGERPRINT_SECRET.existingSecret is empty: name a secret "+
				`whose key "current" holds 32 bytes`,
			"set payments.config.ALLOW_BARE_FINGERPRINTS to true")
	}

	for values, want := range map[string][2]string{
		"": {"rowlock-payments-fingerprint/current", ""},
		"secretEnv: {FINGERPRINT_SECRET: {existingSecret: mine, key: k}}":        {"mine/k", ""},
		empty + ", config: {ALLOW_BARE_FINGERPRINTS: true}":                      {"", "true"},
		empty + ", extraEnv: [{name: ALLOW_BARE_FINGERPRINTS, value: 'true'}]":   {"", "true"},
		empty + ", extraEnv: [{name: FINGERPRINT_SECRET, value: of my own way}]": {"of my own way", ""},
	} {
		env := environment(t, render(t, umbrella, "payments: {"+values+"}"), "rowlock-payments")
		if got := [2]string{env["FINGERPRINT_SECRET"], env["ALLOW_BARE_FINGERPRINTS"]}; got != want {
			t.Errorf("%s gives %q, want %q", values, got, want)
		}
	}
}
