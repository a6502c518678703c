package chassis_test

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/rowlock/rowlock/platform/auth/authtest"
	"github.com/rowlock/rowlock/platform/chassis"
	"github.com/rowlock/rowlock/platform/httpserver"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// A replica is alive and not ready while it has never had the issuer's keys: a wrong AUTH_ISSUER stops a rollout. It
// serves what needs no token, and becomes ready when the issuer answers.
func TestNoReplicaIsReadyBeforeItHasTheIssuersKeys(t *testing.T) {
	t.Parallel()
	issuer := authtest.New(t)
	issuer.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	})
	p := newProbe(t, dbtest.Empty(t), issuer.Environ(t, "rules: [{subjects: [a], services: [probe], allow: [read]}]"))
	p.build = answersOn(t, "api")
	r := p.run(t)
	admin := func(path string) apptest.Answer {
		return apptest.Get(t, fmt.Sprintf("http://%v%s", r.AdminAddr(), path))
	}
	waittest.Eventually(t, "not ready for want of keys", func() bool {
		a := admin("/readyz")
		return a.Status == http.StatusServiceUnavailable && a.Body == "not ready: the keys of AUTH_ISSUER cannot be read\n"
	})
	if a := admin("/livez"); a.Status != http.StatusOK {
		t.Errorf("/livez: %s, want 200", a)
	}

	api := fmt.Sprintf("http://%v", r.Addr("api"))
	if a, want := apptest.Get(t, api+"/openapi.yaml"), "version: "+strconv.Quote(lifecycle.Version()); a.Body != want {
		t.Errorf("/openapi.yaml: %q, want %q", a.Body, want)
	}
	if a := apptest.Get(t, api+"/"); a.Status != http.StatusUnauthorized {
		t.Errorf("without a token: %s, want 401", a)
	}
	a := apptest.Send(t, http.MethodGet, api+"/", "", issuer.Header("a"))
	if a.Status != http.StatusServiceUnavailable || a.Code != "NOT_APPLIED" || a.Header.Get("Retry-After") == "" {
		t.Errorf("with a token: %s, want 503 NOT_APPLIED with Retry-After", a)
	}

	issuer.Answer(nil)
	waittest.Eventually(t, "ready", func() bool { return admin("/readyz").Status == http.StatusOK })
	if a := apptest.Send(t, http.MethodGet, api+"/", "", issuer.Header("a")); a.Status != http.StatusNoContent {
		t.Errorf("with a token, once ready: %s, want 204", a)
	}
}

// A replica has the issuer's keys before its first request, and all its listeners follow the policy's file.
func TestPolicyThatChangesWhileAReplicaRuns(t *testing.T) {
	t.Parallel()
	issuer := authtest.New(t)
	environ := issuer.Environ(t, "rules: []")
	p := newProbe(t, dbtest.Empty(t), environ)
	p.build = answersOn(t, "api", "internal")
	r := p.run(t)
	waittest.Eventually(t, "ready", func() bool { return r.get(t, "/readyz") == http.StatusOK })
	if n := issuer.Fetches(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
	const policy = "rules: [{subjects: [a], services: [probe], allow: [read]}]"
	statuses := func() (all [2]int) {
		for i, name := range []string{"api", "internal"} {
			all[i] = apptest.Send(t, http.MethodGet, fmt.Sprintf("http://%v/", r.Addr(name)), "", issuer.Header("a")).Status
		}
		return all
	}
	if got := statuses(); got != [2]int{403, 403} {
		t.Errorf("without a rule: %v", got)
	}
	if err := os.WriteFile(environ["AUTH_POLICY"], []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	waittest.Eventually(t, "the policy is in force", func() bool { return statuses() == [2]int{204, 204} })
}

// answersOn returns a build that adds listeners of these names, each with a page of documentation and GET /.
func answersOn(t *testing.T, listeners ...string) func(c *chassis.Chassis) {
	t.Helper()
	return func(c *chassis.Chassis) {
		for _, name := range listeners {
			docs := httpserver.Docs{Title: "probe", OpenAPI: []byte("version: 0.0.0")}
			server, err := c.AddListener(name, "127.0.0.1:0", docs)
			if err != nil {
				t.Error(err)
				return
			}
			server.Echo().GET("/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
		}
	}
}
