// Package telemetry builds a process's logger, metrics registry and tracer provider once and hands them out. Rowlock
// uses no global ones, so that two services can run in one test process.
//
//   - Logs are lines of JSON (or text) with time in UTC, level, msg, service and version; a line within a span also has
//     trace_id and span_id.
//   - Metrics go to a separate registry, which starts with the Go runtime, the process and rowlock_build_info.
//   - Traces are off unless an OTLP endpoint is set. Then the standard OTEL_* variables apply, which the OpenTelemetry
//     SDK reads. Off means a no-op provider: no exporter, no goroutine, no spans.
//
// Spans hold no personal data: no paths, no ids, no error texts, no panic values.
//
// A main package also sets [Config.CaptureGlobals]: then the lines that libraries write through log, slog and
// OpenTelemetry go to the same logger, so that every line of the log is JSON.
package telemetry
