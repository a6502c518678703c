package apptest

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/chassis"
)

// RunGuarded runs a replica like Run, with AUTH=token. The issuer's subjects read, change and administer each have the
// right of the same name.
func RunGuarded[C chassis.Config](
	t *testing.T, s chassis.Service[C], dsn string, environs ...map[string]string,
) (*Replica, *authtest.Issuer) {
	t.Helper()
	var policy strings.Builder
	policy.WriteString("rules:\n")
	for _, right := range []auth.Right{auth.Read, auth.Change, auth.Administer} {
		_, _ = fmt.Fprintf(&policy, "  - {subjects: [%[1]s], services: [%[2]s], allow: [%[1]s]}\n", right, s.Name)
	}

	issuer := authtest.New(t)
	return Run(t, s, dsn, append(environs, issuer.Environ(t, policy.String()))...), issuer
}

// RightsAreInForce fails the test unless rights has an entry for each operation of the OpenAPI document, such as
// "GET /events/{id}", and the replica of RunGuarded answers 401 to a caller without a token, 403 to a caller with only
// the other rights, and neither to a caller with the right.
func RightsAreInForce(
	t *testing.T, r *Replica, issuer *authtest.Issuer, document []byte, rights map[string]auth.Right,
) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		t.Fatal(err)
	}

	operations := 0
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			right := rights[method+" "+path]
			if right == "" {
				t.Errorf("%s %s has no right in this test", method, path)
			}
			wantRight(t, r, issuer, method, regexp.MustCompile("{[^}]*}").ReplaceAllString(path, "1"), right)
			operations++
		}
	}

	if operations != len(rights) {
		t.Errorf("%d operations, and the rights of %d", operations, len(rights))
	}

	// Documentation needs no token; an unknown path does, so that it tells nothing.
	for path, want := range map[string]int{"/docs": 200, "/openapi.yaml": 200, "/nope": 401} {
		if a := Get(t, r.API+path); a.Status != want {
			t.Errorf("%s: %s, want %d", path, a, want)
		}
	}
}

// wantRight fails the test unless a request is answered only to a subject that has the right.
func wantRight(t *testing.T, r *Replica, issuer *authtest.Issuer, method, path string, right auth.Right) {
	t.Helper()
	a := Send(t, method, r.API+path, "", nil)
	if a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%s %s without a token: %s", method, path, a)
	}

	for _, subject := range []auth.Right{auth.Read, auth.Change, auth.Administer} {
		a := Send(t, method, r.API+path, "", issuer.Header(string(subject)))
		refused := a.Status == http.StatusForbidden
		if refused != (subject != right) || a.Status == http.StatusUnauthorized || a.Status == 0 {
			t.Errorf("%s %s as %s: %s", method, path, subject, a)
		}
	}
}
