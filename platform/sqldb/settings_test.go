package sqldb

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	const (
		good     = "postgres://app:s3cret@db:5432/x?sslmode=disable"
		postgres = "must begin with postgres://"
		either   = "must begin with postgres:// or mysql://"
	)
	pooled := func(parameters string) Settings { return Settings{URL: good + parameters, Pooler: PoolerTransaction} }
	mysql := func(rest string) Settings {
		return Settings{URL: "mysql://app:s3cret@" + rest, Engines: []Engine{MySQL, PostgreSQL}}
	}
	for name, c := range map[string]struct {
		settings Settings
		want     string
	}{
		"no URL":             {Settings{}, postgres},
		"another engine":     {Settings{URL: "mysql://app:s3cret@db/x"}, postgres},
		"not that engine":    {Settings{URL: good, Engines: []Engine{MySQL}}, "must begin with mysql://"},
		"neither engine":     {Settings{URL: "oracle://app:s3cret@db/x", Engines: []Engine{MySQL, PostgreSQL}}, either},
		"key=value":          {Settings{URL: "host=db password=s3cret sslmode=disable"}, postgres},
		"bad port":           {Settings{URL: "postgres://app:s3cret@db:abc/x?sslmode=disable"}, "cannot be read"},
		"bad escape":         {Settings{URL: "postgres://app:s3cret%zz@db/x?sslmode=disable"}, "cannot be read"},
		"bad parameter":      {Settings{URL: good + "&password=s3cret%zz"}, "cannot be decoded"},
		"no sslmode":         {Settings{URL: "postgres://app:s3cret@db:5432/x"}, "must say sslmode"},
		"two passwords":      {Settings{URL: good + "&password_file=/x"}, "both a password and password_file"},
		"unknown sslmode":    {Settings{URL: "postgres://app:s3cret@db:5432/x?sslmode=maybe"}, `"maybe" is not supported`},
		"pooler, no binary":  {pooled(""), "must say binary_parameters=yes"},
		"pooler, binary=no":  {pooled("&binary_parameters=no"), "must say binary_parameters=yes"},
		"pooler, parameter":  {pooled("&binary_parameters=yes&search_path=x"), "cannot set search_path: leave it out, or"},
		"pooler, options":    {pooled("&binary_parameters=yes&options=-cx"), "cannot set options"},
		"a demand":           {Settings{URL: good + "&channel_binding=require"}, "demands channel_binding, which"},
		"pooler, a demand":   {pooled("&channel_binding=require"), "demands channel_binding, which"},
		"a login by method":  {Settings{URL: good + "&require_auth=scram-sha-256"}, "demands require_auth, which"},
		"a secret demand":    {Settings{URL: good + "&sslpassword=s3cret"}, "demands sslpassword, which"},
		"two lock timeouts":  {Settings{URL: good + "&lock_timeout=1s"}, "sets lock_timeout"},
		"silenced warnings":  {Settings{URL: good + "&client_min_messages=error"}, "sets client_min_messages"},
		"two statement ones": {Settings{URL: good + "&statement_timeout=1s"}, "sets statement_timeout"},
		"two ports":          {Settings{URL: "postgres://app:s3cret@a:1,b:2/x?sslmode=disable"}, "host=a,b&port=5432,5432"},
		"a port for one":     {Settings{URL: "postgres://app:s3cret@a:5432,b/x?sslmode=disable"}, "host=a,b&port="},
		"two IPv6 addresses": {Settings{URL: "postgres://app:s3cret@[::1]:5432,[::2]:5432/x"}, "host=a,b&port="},
		"a standby":          {Settings{URL: good + "&target_session_attrs=prefer-standby"}, "=prefer-standby, with which"},
		"read only":          {Settings{URL: good + "&target_session_attrs=read-only"}, "leave it out"},
		"pooler, primary": {
			pooled("&binary_parameters=yes&target_session_attrs=primary"), "cannot say target_session_attrs=primary",
		},
		"MySQL, no name":     {mysql("db:3306"), "must name a database"},
		"MySQL, no host":     {Settings{URL: "mysql:///x", Engines: []Engine{MySQL}}, "must name a host"},
		"MySQL, parameter":   {mysql("db/x?interpolate=false"), "takes tls, socket and password_file alone"},
		"MySQL, passwords":   {mysql("db/x?password_file=/x"), "both a password and password_file"},
		"MySQL, tls":         {mysql("db/x?tls=nonsense"), "cannot be used"},
		"MySQL, tls, socket": {mysql("db/x?tls=true&socket=/x"), "both tls and socket"},
		"MySQL, bad escape":  {mysql("db/x?%zz"), "cannot be decoded"},
		"MySQL, pooler": {
			Settings{URL: "mysql://db/x", Engines: []Engine{MySQL}, Pooler: PoolerTransaction}, "is PostgreSQL's",
		},
	} {
		_, err := Open(t.Context(), c.settings, slog.New(slog.DiscardHandler), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want %q in it and no password", name, err, c.want)
		}
	}
}

// TestSessions: a pool accepts no session that takes no changes, unless the URL says so or there is a pooler, and finds
// such a one among several hosts. A connector accepts one of a single host, which may be a pooler.
func TestSessions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url       string
		pooler    Pooler
		pool, own string // target_session_attrs
		hosts     string
	}{
		"one host":       {"a:5433/x?", PoolerNone, "read-write", "", "a:5433"},
		"IPv6":           {"[::1]:5433/x?", PoolerNone, "read-write", "", "::1:5433"},
		"a comma":        {"/x?host=a&application_name=b:1,c", PoolerNone, "read-write", "", "a:5432"},
		"any":            {"a/x?target_session_attrs=any", PoolerNone, "any", "any", "a:5432"},
		"primary":        {"a/x?target_session_attrs=primary", PoolerNone, "primary", "primary", "a:5432"},
		"two parameters": {"/x?host=a,b&port=1,2", PoolerNone, "read-write", "read-write", "a:1 b:2"},
		"one port":       {"a,b:5433/x?", PoolerNone, "read-write", "read-write", "a:5433 b:5433"},
		"PgBouncer":      {"a/x?binary_parameters=yes", PoolerTransaction, "", "", "a:5432"},
	} {
		s := Settings{URL: "postgres://app:p,w@" + c.url + "&sslmode=disable", Pooler: c.pooler}
		s.setDefaults()
		cfg, _, _, err := postgresConfig(s)
		own, _, _, ownErr := postgresConfig(Settings{URL: s.URL})
		all := []string{fmt.Sprintf("%s:%d", cfg.Host, cfg.Port)}
		for _, other := range cfg.Multi {
			all = append(all, fmt.Sprintf("%s:%d", other.Host, other.Port))
		}
		hosts := strings.Join(all, " ")
		if err != nil || ownErr != nil || string(cfg.TargetSessionAttrs) != c.pool ||
			string(own.TargetSessionAttrs) != c.own || hosts != c.hosts {
			t.Errorf("%s: %q on %s (%v), own %q (%v); want %q on %s, own %q",
				name, cfg.TargetSessionAttrs, hosts, err, own.TargetSessionAttrs, ownErr, c.pool, c.hosts, c.own)
		}
	}
}

// TestSessionConfig: what the URL says is kept, except where a setting of ours would
// disagree. A pooler is sent no startup parameters. TestSettings shows what the server gets.
func TestSessionConfig(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parameters string
		pooler     Pooler
		want       string
	}{
		"defaults": {"", PoolerNone, "true counts 5s force_generic_plan z"},
		"URL": {
			"&binary_parameters=no&application_name=mine&connect_timeout=2&search_path=y", PoolerNone,
			"false mine 2s force_generic_plan y",
		},
		"PgBouncer": {"&binary_parameters=yes", PoolerTransaction, "true counts 5s"},
		"socket":    {"&host=/run/postgresql", PoolerNone, "true counts 5s force_generic_plan z"},
		"abstract":  {"&host=@abstract", PoolerNone, "true counts 5s force_generic_plan z"},
	} {
		s := Settings{
			URL: "postgres:///x?sslmode=disable" + c.parameters, ApplicationName: "counts", Pooler: c.pooler,
			Session: map[string]string{"plan_cache_mode": "force_generic_plan", "search_path": "z"},
		}
		if strings.HasPrefix(c.parameters, "&host") {
			s.URL = strings.Replace(s.URL, "sslmode=disable&", "", 1)
		}
		s.setDefaults()
		cfg, _, _, err := postgresConfig(s)
		got := fmt.Sprint(cfg.BinaryParameters, " ", cfg.ApplicationName, " ", cfg.ConnectTimeout, " ",
			cfg.Runtime["plan_cache_mode"], " ", cfg.Runtime["search_path"])
		if strings.TrimSpace(got) != c.want || err != nil {
			t.Errorf("%s: %s, want %s: %v", name, got, c.want, err)
		}
	}
}

// TestVariablesLeadToTheServer: the chart's URL names no server. The driver reads the variables, whose host may be an
// IPv6 address, in brackets or not; a URL may have one too. A secret often ends with a line break. It sets variables of
// the process, so it is not parallel.
func TestVariablesLeadToTheServer(t *testing.T) {
	for name, value := range map[string]string{
		"PGPORT": "5433\n", "PGDATABASE": "x\n", "PGUSER": "app\r\n", "PGPASSWORD": "p\n",
	} {
		t.Setenv(name, value)
	}
	const none = "postgres://?sslmode=disable"
	if err := config.Load(&config.Common{}, map[string]string{"DATABASE_URL": none}); err != nil {
		t.Errorf("the configuration refuses it: %v", err)
	}
	for _, c := range [][2]string{
		{"::1\n", none}, {"[::1]\n", none}, {"unused.invalid", "postgres://[::1]?sslmode=disable"},
	} {
		t.Setenv("PGHOST", c[0])
		cfg, _, _, err := postgresConfig(Settings{URL: c[1]})
		const want = "::1 5433 x app p"
		if got := fmt.Sprint(cfg.Host, " ", cfg.Port, " ", cfg.Database, " ", cfg.User, " ", cfg.Password); got != want {
			t.Errorf("PGHOST=%s, %s: %s, want %s: %v", c[0], c[1], got, want, err)
		}
	}
}

// TestSilentServer: a server that takes connections and says nothing is unavailable, to a caller
// without a deadline too.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	waittest.Together(t, 2, func(i int) error {
		kind := []Engine{PostgreSQL, MySQL}[i]
		url := []string{"postgres://app@%s/x?sslmode=disable&connect_timeout=1", "mysql://app@%s/x?tls=false"}[i]
		c, err := kind.implementation().connector(Settings{URL: fmt.Sprintf(url, listener.Addr())})
		if err != nil {
			return err
		}
		if kind == MySQL && c.handshake != defaultConnectTimeout {
			t.Errorf("the handshake is bounded by %s", c.handshake)
		}
		c.handshake /= 10
		err = (&DB{pool: sqlx.NewDb(sql.OpenDB(c), string(kind))}).Ping(context.WithoutCancel(t.Context()))
		if p := Problem(err); p == nil || p.Kind().Code() != "DATABASE_UNAVAILABLE" {
			return fmt.Errorf("%s: %w", url, err)
		}
		return nil
	})
}
