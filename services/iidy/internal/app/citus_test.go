package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/services/iidy/internal/postgres"
)

// A replica serves every request from distributed lists, bodies that are too long for memory among them.
func TestReplicaOnCitus(t *testing.T) {
	t.Parallel()
	dsn, _ := apptest.Citus(t, postgres.Migrations())
	r := startOn(t, dsn, map[string]string{"DB_CLUSTER": "citus", "REQUEST_TIMEOUT": "30s", "SHUTDOWN_TIMEOUT": "60s"})
	const many = 15_000
	for _, s := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{http.MethodPost, items + "/a", "", http.StatusCreated, "ADDED 1"},
		{http.MethodPost, batch, "b\nc\n", http.StatusCreated, "ADDED 2"},
		{http.MethodPost, batch + "?action=claim&count=2&lease=60s", "", http.StatusOK, "a 0\nb 0"},
		{http.MethodPost, batch, numbers(many), http.StatusCreated, "ADDED 15000"},
		{http.MethodPost, batch + "?action=increment", numbers(many), http.StatusOK, "INCREMENTED 15000"},
		{http.MethodDelete, batch, numbers(many), http.StatusOK, "DELETED 15000"},
	} {
		r.want(t, s.method, s.path, s.body, s.status, s.want)
	}
	if a := apptest.Send(t, http.MethodGet, r.API+items, "", nil); !strings.HasPrefix(a.Body, "items 3\n") {
		t.Errorf("the list has %s", a)
	}
}
