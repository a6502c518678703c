// Package telemetry builds a process's logger, metrics registry and tracer provider once and hands them out. Rowlock
// uses no global ones, so that two services can run in one test process.
//
//   - Logs are lines of JSON (or text) with time in UTC, level, msg, service and version; a record made under a span
//     also carries trace_id and span_id.
//   - Metrics go to a registry of their own, which begins with the Go runtime, the process and rowlock_build_info.
//   - Traces are off unless an OTLP endpoint is set; then the standard OTEL_* variables apply, read by the
//     OpenTelemetry SDK. Off means a no-op provider: no exporter, no goroutine, no spans.
//
// Spans hold no personal data: no paths, no ids, no texts of errors, no values of panics.
//
// A whole process also sets [Config.CaptureGlobals]: the lines that libraries write through log, slog and
// OpenTelemetry then come out of the same logger, and the log is JSON in every line.
package telemetry
