package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"log" //nolint:depguard // what a stranger's code uses
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"google.golang.org/grpc/grpclog"

	"github.com/rowlock/rowlock/platform/telemetry"
)

// childEnv makes the test binary a process that captures its globals: that
// cannot be taken back, so it must not happen in the one that runs the tests.
const childEnv = "ROWLOCK_TELEMETRY_CHILD"

// child writes one line by every road that other people's code takes.
func child() int {
	_, err := telemetry.New(context.Background(), telemetry.Config{Service: "counts", CaptureGlobals: true})
	if err != nil {
		panic(err) // the parent sees it on stderr
	}
	otlptracehttp.NewClient() // reads a variable that New was not shown, and logs what it finds
	log.Print("from log")
	slog.Info("from slog") //nolint:sloglint // what a stranger's code does
	otel.Handle(errors.New("from otel"))
	otel.Handle(errors.New("again")) // half a minute must pass before it may speak again
	grpclog.Warning("from grpc: too chatty")
	grpclog.Error("from grpc")
	return 0
}

func TestCaptureGlobals(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(cmd.Environ(), childEnv+"=1",
		"OTEL_EXPORTER_OTLP_HEADERS=a=Bearer s3cret%zz,s3cret", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://s3cret:%zz@c")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("child: %v\n%s%s", err, &stdout, &stderr)
	}
	got := lines(t, &stderr)
	if strings.Contains(stderr.String(), "s3cret") {
		t.Errorf("the log tells a secret:\n%s", &stderr)
	}
	want := []map[string]string{
		{"msg": "parse url", "level": "ERROR", "logger": "opentelemetry"},
		{"msg": "escape header value", "level": "ERROR"},
		{"msg": "parse headers", "level": "ERROR"},
		{"msg": "from log", "level": "WARN"},
		{"msg": "from slog", "level": "INFO"},
		{"msg": "opentelemetry", "level": "WARN", "error": "from otel"},
		{"msg": "grpc", "level": "WARN", "error": "from grpc"},
	}
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), &stderr)
	}
	for i := range want {
		if got[i]["service"] != "counts" {
			t.Errorf("line %d did not come from the service's logger: %v", i, got[i])
		}
		for key, value := range want[i] {
			if got[i][key] != value {
				t.Errorf("line %d has %s %v, want %q", i, key, got[i][key], value)
			}
		}
	}
}
