package auth

import (
	"strings"
	"testing"
)

const rulesOfShop = `
rules:
  - subjects: [system:serviceaccount:shop:checkout, "system:serviceaccount:ops:*"]
    services: [payments, counts]
    allow: [read, change]
  - subjects: ["system:serviceaccount:ops:admin"]
    services: [counts]
    allow: [administer]
  - {subjects: ["*"], services: [events], allow: [read]}
`

func TestPolicy(t *testing.T) {
	t.Parallel()
	const ops = "system:serviceaccount:ops:"
	for _, tt := range []struct {
		service, subject string
		read, change     bool
		administer       bool
	}{
		{"counts", "system:serviceaccount:shop:checkout", true, true, false},
		{"payments", "system:serviceaccount:shop:checkout", true, true, false},
		{"iidy", "system:serviceaccount:shop:checkout", false, false, false},
		{"counts", "system:serviceaccount:shop:checkout2", false, false, false},
		{"counts", "system:serviceaccount:shop:", false, false, false},
		{"counts", "SYSTEM:serviceaccount:shop:checkout", false, false, false},
		{"counts", ops + "x", true, true, false},
		{"counts", ops + "admin", true, true, true},
		{"payments", ops + "admin", true, true, false},
		{"counts", "system:serviceaccount:ops", false, false, false},
		{"counts", "system:serviceaccount:ops2:x", false, false, false},
		{"events", "any", true, false, false},
		{"counts", "any", false, false, false},
	} {
		p, err := parsePolicy([]byte(rulesOfShop), tt.service)
		if err != nil {
			t.Fatal(err)
		}
		for right, want := range map[Right]bool{
			Read: tt.read, Change: tt.change, Administer: tt.administer, Public: false, "": false,
		} {
			if got := p.allow(tt.subject, right); got != want {
				t.Errorf("%s may %q %s: %t", tt.subject, right, tt.service, got)
			}
		}
	}
}

func TestBadPolicies(t *testing.T) {
	t.Parallel()
	const rule = `{subjects: [a], services: [counts], allow: [read]}`
	with := func(old, other string) string { return "rules: [" + strings.Replace(rule, old, other, 1) + "]" }
	for source, want := range map[string]string{
		"":                         "no list of rules",
		"rules:":                   "no list of rules",
		"{}":                       "no list of rules",
		"rules: {}":                "not a policy in YAML",
		"rules: [":                 "not a policy in YAML",
		"rules: []\nrules: []":     "not a policy in YAML",
		"rules: []\n---\n{}":       "more than one",
		"rules: []\nmore: 1":       "not a policy in YAML",
		with("[a]", "[]"):          "must each have an entry",
		with("[counts]", "[]"):     "must each have an entry",
		with("[read]", "[]"):       "must each have an entry",
		with("services", "serve"):  "not a policy in YAML",
		with("[a]", "a"):           "not a policy in YAML",
		with("[a]", `["*a"]`):      "or a prefix followed by *",
		with("[a]", `["a**"]`):     "or a prefix followed by *",
		with("[a]", `[""]`):        "must be a name",
		with("[a]", `["a\n"]`):     "must be a name",
		with("counts", "Counts"):   "not the name of a service",
		with("counts", "'*'"):      "not the name of a service",
		with("read", "write"):      "not a right: read, change or administer",
		with("read", "public"):     "not a right: read, change or administer",
		with("read", "Read"):       "not a right: read, change or administer",
		"rules: [" + rule + ", 1]": "not a policy in YAML",
	} {
		if _, err := parsePolicy([]byte(source), "counts"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", source, err, want)
		}
	}
}
