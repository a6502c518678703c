package config_test

import (
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/config"
)

// service is a configuration as a service has it.
type service struct {
	config.Common

	LockWait time.Duration `env:"LOCK_WAIT" envDefault:"3s" help:"how long to wait" max:"1m" min:"1ms"`
	Secret   string        `env:"FINGERPRINT_SECRET" help:"key of the fingerprint" secret:"true"`
	Batch    int           `env:"BATCH" help:"optional" min:"1"`
	Pin      int           `env:"PIN" envDefault:"1" help:"secret number" max:"9" secret:"true"`
	Worker   workerSettings
}

type workerSettings struct {
	Pause time.Duration `env:"WORKER_PAUSE" envDefault:"1s" help:"pause"`
}

func (service) Defaults() map[string]string { return map[string]string{"MAX_BODY": "256 MiB"} }

func (s service) Validate(f *config.Faults) {
	f.Less("LOCK_WAIT", s.LockWait, "DB_STATEMENT_TIMEOUT", s.DBStatementTimeout)
}

const goodURL = "postgres://counts:s3cret@db:5432/rowlock?sslmode=disable"

func TestLoadDefaults(t *testing.T) {
	t.Parallel()
	var got service
	if err := config.Load(&got, map[string]string{"DATABASE_URL": goodURL}); err != nil {
		t.Fatalf("Load: %v", err)
	}
	want := service{
		Common:   got.Common, // see TestCommonHasTheDefaultsOfTheDesign
		LockWait: 3 * time.Second, Pin: 1, Worker: workerSettings{Pause: time.Second},
	}
	if got != want || got.MaxBody != 256*config.MiB || got.DBLockTimeout != 5*time.Second || !got.MigrateOnStart {
		t.Errorf("Load:\n got %+v\nwant %+v", got, want)
	}
	if got.MigrationURL() != goodURL {
		t.Errorf("MigrationURL() = %q, want DATABASE_URL", got.MigrationURL())
	}
}

func TestLoadTakesWhatIsSet(t *testing.T) {
	t.Parallel()
	var got service
	err := config.Load(&got, map[string]string{
		"DATABASE_URL": goodURL + "\r\n", "MIGRATE_DATABASE_URL": "postgres://owner@db/rowlock",
		"FINGERPRINT_SECRET": "s3cret\n", "LOG_FORMAT": "text\n", // as secrets often end
		"MAX_BODY": "1MiB", "WORKER_PAUSE": "2s", "PPROF": "true", "HTTP_ADDR": "127.0.0.1:0", "ADMIN_ADDR": "127.0.0.1:0",
		"DB_POOLER": "transaction", "DB_CLUSTER": "citus", "SHUTDOWN_DELAY": "2s", "BATCH": "7",
		"LOG_LEVEL": "", // set to nothing: as if not set
	})
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if got.DatabaseURL != goodURL || got.Secret != "s3cret" {
		t.Errorf("the line breaks were not cut off: %q, %q", got.DatabaseURL, got.Secret)
	}
	if got.MaxBody != config.MiB || got.Worker.Pause != 2*time.Second || !got.PProf || got.HTTPAddr != "127.0.0.1:0" ||
		got.DBPooler != "transaction" || got.DBCluster != "citus" || got.LogLevel != "info" || got.Batch != 7 {
		t.Errorf("Load did not take the values: %+v", got)
	}
	if got.MigrationURL() != "postgres://owner@db/rowlock" {
		t.Errorf("MigrationURL() = %q", got.MigrationURL())
	}
	if got.StopTimeout() != 22*time.Second {
		t.Errorf("StopTimeout() = %s, want delay and timeout, 22s", got.StopTimeout())
	}
}

func TestLoadSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ environ, want string }{ // the variables, and the error after "configuration:"
		{"DATABASE_URL=", ` DATABASE_URL: required, but not set`},
		{"MIGRATE_DATABASE_URL=postgres://u@h/db|?sslmode=require", ` MIGRATE_DATABASE_URL: holds a line break: ` +
			`look for one at the end of the secret that it is made from`},
		{"DB_LOCK_TIMEOUT=5", ` DB_LOCK_TIMEOUT: "5" is not a duration such as 500ms, 5s or 1m30s`},
		{"PPROF=yes", ` PPROF: "yes" is not true or false`},
		{"DB_MAX_OPEN_CONNS=8.0", ` DB_MAX_OPEN_CONNS: "8.0" is not a whole number`},
		{"DB_MAX_OPEN_CONNS=99999999999", ` DB_MAX_OPEN_CONNS: "99999999999" is out of range`},
		{"MAX_BODY=64KB", ` MAX_BODY: "64KB" is not a size such as 1000, 64KiB or 256MiB`},
		{"DB_POOLER=session", ` DB_POOLER: "session" is not none or transaction`},
		{"LOG_LEVEL=INFO", ` LOG_LEVEL: "INFO" is not debug, info, warn or error`},
		{"DB_MAX_OPEN_CONNS=0", " DB_MAX_OPEN_CONNS: 0 must be at least 1"},
		{"MAX_BODY=0", " MAX_BODY: 0B must be at least 1B"},
		{"BATCH=0", " BATCH: 0 must be at least 1"},
		{"SHUTDOWN_DELAY=-1s", " SHUTDOWN_DELAY: -1s must be at least 0s"},
		{"MIGRATE_TIMEOUT=0s", " MIGRATE_TIMEOUT: 0s must be at least 1ms"},
		{"MIGRATE_TIMEOUT=25h", " MIGRATE_TIMEOUT: 25h0m0s must be at most 24h"},
		{"SHUTDOWN_DELAY=1h", " SHUTDOWN_DELAY: 1h0m0s must be at most 10m"},
		{"WORKER_PAUSE=x", ` WORKER_PAUSE: "x" is not a duration such as 500ms, 5s or 1m30s`},
		{"HTTP_ADDR=8080", ` HTTP_ADDR: "8080" is not an address such as :8080 or 127.0.0.1:0`},
		{"ADMIN_ADDR=:70000", ` ADMIN_ADDR: ":70000" is not an address such as :8080 or 127.0.0.1:0`},
		{"ADMIN_ADDR=:8080", " HTTP_ADDR and ADMIN_ADDR are both :8080"},
		{"DB_LOCK_TIMEOUT=8s", " DB_LOCK_TIMEOUT (8s) must be shorter than DB_STATEMENT_TIMEOUT (8s)"},
		{"AUTH=mtls", ` AUTH: "mtls" is not off or token`},
		{"AUTH=token AUTH_ISSUER=https://issuer", " AUTH_POLICY: required with AUTH=token"},
		{
			"AUTH=token AUTH_POLICY=/policy.yaml",
			" AUTH_ISSUER: required with AUTH=token, such as https://kubernetes.default.svc.cluster.local",
		},
		{
			"AUTH=token AUTH_POLICY=/policy.yaml AUTH_ISSUER=http://issuer",
			` AUTH_ISSUER: "http://issuer" is not a URL that begins with https://`,
		},
		// Several, in the order of the fields, and what Validate of both structs finds.
		{
			"LOCK_WAIT=9s DB_POOLER=x REQUEST_TIMEOUT=30s", "\n" +
				"  DB_POOLER: \"x\" is not none or transaction\n" +
				"  REQUEST_TIMEOUT (30s) must be shorter than SHUTDOWN_TIMEOUT (20s)\n" +
				"  LOCK_WAIT (9s) must be shorter than DB_STATEMENT_TIMEOUT (8s)",
		},
		// No sentence about a value that was not read.
		{
			"DB_STATEMENT_TIMEOUT=10sec DB_LOCK_TIMEOUT=9s",
			` DB_STATEMENT_TIMEOUT: "10sec" is not a duration such as 500ms, 5s or 1m30s`,
		},
		{
			"LOG_FORMAT=" + strings.Repeat("j", 1000),
			` LOG_FORMAT: "` + strings.Repeat("j", 80) + `..." is not json or text`,
		},
	} {
		environ := map[string]string{"DATABASE_URL": goodURL}
		for pair := range strings.FieldsSeq(tt.environ) {
			name, value, _ := strings.Cut(pair, "=")
			environ[name] = strings.ReplaceAll(value, "|", "\n")
		}
		err := config.Load(&service{}, environ)
		if err == nil || err.Error() != "configuration:"+tt.want {
			t.Errorf("Load of %s:\n got %v\nwant configuration:%s", tt.environ, err, tt.want)
		}
	}
}

// No error repeats a secret value, in whatever way it is wrong.
func TestNoSecretIsRepeated(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, environ := range map[string]map[string]string{
		"no url":        {"DATABASE_URL": secret},
		"broken url":    {"DATABASE_URL": "postgres://u:" + secret + "@h:port/db"},
		"broken escape": {"DATABASE_URL": "postgres://u:%zz" + secret + "@h/db"},
		"line break":    {"DATABASE_URL": "postgres://u:" + secret + "@h/db\n?a=b"},
		"opaque":        {"DATABASE_URL": "postgres:u:" + secret + "@h"},
		"key=value":     {"DATABASE_URL": "host=h password=" + secret},
		"migrate":       {"MIGRATE_DATABASE_URL": secret + "\x00"},
		"unreadable":    {"PIN": secret},
		"out of bounds": {"PIN": "7777777"},
	} {
		all := map[string]string{"DATABASE_URL": goodURL}
		maps.Copy(all, environ)
		err := config.Load(&service{}, all)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		if text := fmt.Sprintf("%+v", err); strings.Contains(text, secret) || strings.Contains(text, "7777777") {
			t.Errorf("%s: the error repeats the secret: %s", name, text)
		}
	}
}

func TestLoadPanicsOnMistakesOfTheProgram(t *testing.T) {
	t.Parallel()
	for name, dst := range map[string]any{
		"no help": &struct {
			A string `env:"A"`
		}{},
		"two fields": &struct {
			A string `env:"A" help:"a"`
			B string `env:"A" help:"a"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			_ = config.Load(dst, nil)
		}()
	}
}

// A nil map must mean no variables, not those of the process.
func TestLoadReadsNothingButTheMap(t *testing.T) {
	t.Setenv("DATABASE_URL", goodURL)
	if err := config.Load(&service{}, nil); err == nil {
		t.Error("Load(nil): DATABASE_URL came from the process")
	}
	if got := config.Environ()["DATABASE_URL"]; got != goodURL {
		t.Errorf("Environ: DATABASE_URL = %q, want %q", got, goodURL)
	}
}

func TestMasked(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		goodURL: "postgres://counts:xxxxx@db:5432/rowlock?sslmode=disable",
		"postgres://u@h/db?password=s3cret&sslmode=require": "postgres://u@h/db?password=***&sslmode=require",
		"postgres://u@h/db?sslPassword=s3cret":              "postgres://u@h/db?sslPassword=***",
		"postgres://u@h/db?pass%77ord=s3cret":               "postgres://u@h/db?pass%77ord=***",
		"postgres:///db?host=/run/postgresql":               "postgres:///db?host=/run/postgresql",
		"postgres://u:12#s3cret@h/db":                       "***",
		"postgres://u:12/s3cret@h/db":                       "***",
		"postgres://u:12?s3cret@h/db":                       "***",
		"":                                                  "",
	}
	for in, want := range tests {
		attrs := config.Masked(&service{Common: config.Common{DatabaseURL: in, MaxBody: 2 * config.MiB}, Secret: "s3cret"})
		values := map[string]string{}
		for _, a := range attrs {
			values[a.Key] = a.Value.String()
		}
		if values["DATABASE_URL"] != want {
			t.Errorf("%q is printed as %q, want %q", in, values["DATABASE_URL"], want)
		}
		if values["FINGERPRINT_SECRET"] != "***" || values["MIGRATE_DATABASE_URL"] != "" || values["MAX_BODY"] != "2MiB" {
			t.Errorf("values = %v", values)
		}
		if line := slog.GroupValue(attrs...).String(); strings.Contains(line, "s3cret") {
			t.Errorf("%q: a secret is printed: %s", in, line)
		}
	}
}
