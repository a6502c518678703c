package sqldb

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
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
		"pooler, parameter":  {pooled("&binary_parameters=yes&search_path=x"), "cannot set search_path"},
		"pooler, options":    {pooled("&binary_parameters=yes&options=-cx"), "cannot set options"},
		"two lock timeouts":  {Settings{URL: good + "&lock_timeout=1s"}, "sets lock_timeout"},
		"two statement ones": {Settings{URL: good + "&statement_timeout=1s"}, "sets statement_timeout"},
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
		cfg, _, err := sessionConfig(s)
		got := fmt.Sprint(cfg.BinaryParameters, " ", cfg.ApplicationName, " ", cfg.ConnectTimeout, " ",
			cfg.Runtime["plan_cache_mode"], " ", cfg.Runtime["search_path"])
		if strings.TrimSpace(got) != c.want || err != nil {
			t.Errorf("%s: %s, want %s: %v", name, got, c.want, err)
		}
	}
}

func TestTwoPoolsNeedTwoNames(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	s := Settings{URL: "postgres://app@db/x?sslmode=disable"}
	first, err := Open(t.Context(), s, slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := first.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = Open(t.Context(), s, slog.New(slog.DiscardHandler), reg)
	if err == nil || !strings.Contains(err.Error(), `named "main"`) {
		t.Fatalf("got %v, want the name of the pool", err)
	}
	s.Name = "ledger"
	second, err := Open(t.Context(), s, slog.New(slog.DiscardHandler), reg)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
