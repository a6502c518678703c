package guest

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
)

// The run's roles get into its database, no other one does, and all together they take no
// more connections than were counted beforehand.
func TestClosedToOthers(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	stay := enter(t, landlord(t, dsn, "CREATEDB CREATEROLE"))
	access, err := local.Prepare(t.Context(), stay.Admin(), stay.Service(local.Schema{Name: "counts"}))
	if err != nil {
		t.Fatal(err)
	}
	ping := func(dsn string) error {
		return inConn(t.Context(), dsn, func(conn *sql.Conn) error { return conn.PingContext(t.Context()) })
	}
	for _, one := range []string{stay.Admin(), access.Owner, access.App} {
		if err := ping(one); err != nil {
			t.Errorf("a role of the run: %v", err)
		}
	}
	stranger := swap(t, landlord(t, dsn, ""), func(u *url.URL) { u.Path = "/" + stay.Names() })
	err = ping(stranger)
	if refused, ok := errors.AsType[*pq.Error](err); !ok || refused.Code != "42501" {
		t.Errorf("a role of others: %v", err)
	}
	var limit int
	err = inConn(t.Context(), dsn, func(conn *sql.Conn) error {
		return conn.QueryRowContext(t.Context(), `SELECT datconnlimit FROM pg_database WHERE datname = $1`, stay.Names()).Scan(&limit)
	})
	if err != nil || limit != 5 {
		t.Errorf("the database takes %d connections, %v", limit, err)
	}
}

// A database that somebody has made under the same name, before the look or after it, is not
// the run's and stays.
func TestNameOfOthers(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	s, err := Parse(dsn)
	if err == nil {
		err = s.Look(t.Context(), 5)
	}
	if err != nil {
		t.Fatal(err)
	}
	const name = Prefix + "of_others"
	do(t, dsn, `CREATE DATABASE `+name)
	t.Cleanup(func() { do(t, dsn, `DROP DATABASE `+name) })
	before, err := s.enter(t.Context(), name)
	if err == nil {
		t.Error("a name that is there is taken")
	}
	after := &Stay{server: s, database: name}
	if err := s.inConn(t.Context(), func(conn *sql.Conn) error { return after.create(t.Context(), conn) }); err == nil {
		t.Error("a name that comes to be there is taken")
	}
	for _, stay := range []*Stay{before, after} {
		leave(t, stay)
	}
	do(t, swap(t, dsn, func(u *url.URL) { u.Path = "/" + name }), `SELECT`)
}

// What surely is still there is told as such: here a role that has a right elsewhere, by
// which it cannot be dropped.
func TestLeaveKnows(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	stay := enter(t, dsn)
	schema := stay.Service(local.Schema{Name: "counts"})
	if _, err := local.Prepare(t.Context(), stay.Admin(), schema); err != nil {
		t.Fatal(err)
	}
	held := schema.RoleNames()[1]
	do(t, dsn, `GRANT CREATE ON SCHEMA public TO `+held)
	t.Cleanup(func() { do(t, dsn, `REVOKE CREATE ON SCHEMA public FROM `+held) })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	left, err := stay.Leave(ctx)
	if !slices.Equal(left, []string{held}) || err == nil || !strings.HasPrefix(err.Error(), "still on the server: "+held+" (") {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

// A server that falls silent in the middle does not keep a run from its end.
func TestFallsSilent(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Empty(t)
	proxy := faultproxy.New(t, dsn)
	s, err := Parse(swap(t, proxy.DSN(dsn), func(u *url.URL) {
		q := u.Query()
		q.Set(connectWait, "60") // the driver's own bound is not what is tested
		u.RawQuery = q.Encode()
	}))
	if err == nil {
		err = s.Look(t.Context(), 5)
	}
	if err != nil {
		t.Fatal(err)
	}
	proxy.Pause()
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	begin := time.Now()
	if err := s.Look(soon(), 5); err == nil {
		t.Error("a look at a silent server is one")
	}
	stay, err := s.Enter(soon())
	if took := time.Since(begin); !errors.Is(err, errSilent) || took > 20*time.Second {
		t.Errorf("it enters for %s: %v", took, err)
	}
	left, err := stay.Leave(soon())
	if !slices.Equal(left, []string{stay.Names()}) || err == nil || !strings.HasPrefix(err.Error(), "may be on the server: "+stay.Names()) {
		t.Errorf("it leaves %v, %v", left, err)
	}
	proxy.Resume()
	leave(t, stay)
}

// What the driver would take from the environment must not lead to another server than
// the URL, to which the proxies go.
func TestParseElsewhere(t *testing.T) {
	t.Setenv("PGHOSTADDR", "127.0.0.9")
	_, err := Parse("postgres://u@h:7/db?sslmode=disable")
	var refusal RefusalError
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "PGHOSTADDR") {
		t.Errorf("%v", err)
	}
}
