package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"log" //nolint:depguard // what a library uses
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

// childEnv makes the test binary a process that captures its globals, which cannot be undone in the one that runs
// tests.
const childEnv = "ROWLOCK_TELEMETRY_CHILD"

// child writes a line in every way that libraries have.
func child() int {
	_, err := telemetry.New(context.Background(), telemetry.Config{Service: "counts", CaptureGlobals: true})
	if err != nil {
		panic(err) // the parent sees it on stderr
	}
	otlptracehttp.NewClient() // reads variables that New was not given, and logs what it finds
	log.Print("from log")
	slog.Info("from slog") //nolint:sloglint // what a library does
	otel.Handle(errors.New("from otel"))
	otel.Handle(errors.New("again")) // too early for another line
	grpclog.Error("from grpc")
	return 0
}

func TestCaptureGlobals(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(cmd.Environ(), childEnv+"=1",
		"OTEL_EXPORTER_OTLP_HEADERS=a=Bearer s3cret%zz,s3cret", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://s3cret:%zz@c")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil || strings.Contains(stderr.String(), "s3cret") {
		t.Fatalf("child: %v, its log:\n%s", err, &stderr)
	}
	var got []string
	for _, line := range lines(t, &stderr) {
		for _, key := range []string{"level", "service", "msg", "error"} {
			text, _ := line[key].(string)
			got = append(got, text)
		}
	}
	want := "ERROR counts parse url  ERROR counts escape header value  ERROR counts parse headers  " +
		"WARN counts from log  INFO counts from slog  WARN counts opentelemetry from otel"
	if strings.Join(got, " ") != want {
		t.Errorf("the log is %q\nwant       %q", strings.Join(got, " "), want)
	}
}
