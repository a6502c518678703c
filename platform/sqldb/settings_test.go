package sqldb

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
)

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	const good = "postgres://app:s3cret@db:5432/x?sslmode=disable"
	pooled := func(parameters string) Settings { return Settings{URL: good + parameters, Pooler: PoolerTransaction} }
	for name, c := range map[string]struct {
		settings Settings
		want     string
	}{
		"no URL":             {Settings{}, "must begin with postgres://"},
		"another engine":     {Settings{URL: "mysql://app:s3cret@db/x"}, "must begin with postgres://"},
		"key=value":          {Settings{URL: "host=db password=s3cret sslmode=disable"}, "must begin with postgres://"},
		"bad port":           {Settings{URL: "postgres://app:s3cret@db:abc/x?sslmode=disable"}, "cannot be read"},
		"bad escape":         {Settings{URL: "postgres://app:s3cret%zz@db/x?sslmode=disable"}, "cannot be read"},
		"bad parameter":      {Settings{URL: good + "&password=s3cret%zz"}, "cannot be decoded"},
		"no sslmode":         {Settings{URL: "postgres://app:s3cret@db:5432/x"}, "must say sslmode"},
		"unknown sslmode":    {Settings{URL: "postgres://app:s3cret@db:5432/x?sslmode=maybe"}, `"maybe" is not supported`},
		"unknown pooler":     {Settings{URL: good, Pooler: "session"}, `"session" is not known`},
		"negative pool":      {Settings{URL: good, MaxOpenConns: -1}, "at least one connection"},
		"negative timeout":   {Settings{URL: good, LockTimeout: -time.Second}, "at least 1ms"},
		"tiny timeout":       {Settings{URL: good, IdleTxTimeout: time.Microsecond}, "at least 1ms"},
		"lock >= statement":  {Settings{URL: good, LockTimeout: 8 * time.Second}, "must be shorter"},
		"pooler, no binary":  {pooled(""), "must say binary_parameters=yes"},
		"pooler, binary=no":  {pooled("&binary_parameters=no"), "must say binary_parameters=yes"},
		"pooler, parameter":  {pooled("&binary_parameters=yes&search_path=x"), "cannot set search_path"},
		"pooler, options":    {pooled("&binary_parameters=yes&options=-cx"), "cannot set options"},
		"two lock timeouts":  {Settings{URL: good + "&lock_timeout=1s"}, "sets lock_timeout"},
		"two statement ones": {Settings{URL: good + "&statement_timeout=1s"}, "sets statement_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Open(t.Context(), c.settings, slog.New(slog.DiscardHandler), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q in it", err, c.want)
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestSessionConfig(t *testing.T) {
	t.Parallel()
	s := Settings{
		URL: "postgres://app@db/x?sslmode=disable&search_path=y", ApplicationName: "counts",
		Session: map[string]string{"plan_cache_mode": "force_generic_plan", "search_path": "z"},
	}
	s.setDefaults()
	cfg, err := sessionConfig(s)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"lock_timeout": "5000", "statement_timeout": "8000", "idle_in_transaction_session_timeout": "10000",
		"client_connection_check_interval": "200", "search_path": "y",
	} {
		if got := cfg.Runtime[name]; got != want {
			t.Errorf("%s is sent as %q, want %q", name, got, want)
		}
	}
	if !cfg.BinaryParameters || cfg.ApplicationName != "counts" || cfg.ConnectTimeout != defaultConnectTimeout {
		t.Errorf("binary_parameters %t, application_name %q, connect_timeout %s",
			cfg.BinaryParameters, cfg.ApplicationName, cfg.ConnectTimeout)
	}
}

func TestSessionConfigKeepsWhatTheURLSays(t *testing.T) {
	t.Parallel()
	s := Settings{
		URL:             "postgres://app@db/x?sslmode=disable&binary_parameters=no&application_name=mine&connect_timeout=2",
		ApplicationName: "counts",
	}
	s.setDefaults()
	cfg, err := sessionConfig(s)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.BinaryParameters || cfg.ApplicationName != "mine" || cfg.ConnectTimeout != 2*time.Second {
		t.Errorf("binary_parameters %t, application_name %q, connect_timeout %s",
			cfg.BinaryParameters, cfg.ApplicationName, cfg.ConnectTimeout)
	}
}

func TestSessionConfigBehindPooler(t *testing.T) {
	t.Parallel()
	s := Settings{
		URL:    "postgres://app@db/x?sslmode=disable&binary_parameters=yes",
		Pooler: PoolerTransaction, ApplicationName: "counts",
	}
	s.setDefaults()
	cfg, err := sessionConfig(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Runtime) != 0 {
		t.Errorf("startup parameters are sent to a pooler: %v", cfg.Runtime)
	}
}

func TestSocketNeedsNoSSLMode(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres:///x?host=/run/postgresql", "postgres:///x?host=@abstract"} {
		if _, _, err := driverConfig(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestTracingOff: without a provider the connections have no wrapper, and a statement
// outside a recorded trace starts no span.
func TestTracingOff(t *testing.T) {
	t.Parallel()
	plain := &connector{}
	if traced(plain, Settings{}) != plain {
		t.Error("a connection without tracing is wrapped")
	}
	s := Settings{URL: "postgres://x", TracerProvider: noop.NewTracerProvider()}
	wrapped, ok := traced(plain, s).(*tracedConnector)
	if !ok || wrapped.tracing.start(t.Context(), "", "SELECT 1") != nil {
		t.Error("no wrapper, or a span outside a trace")
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
