// Package telemetry builds what a process needs to be seen from outside, once,
// and hands it out: a logger, a registry of metrics and a tracer provider.
// Nothing in Rowlock reaches for a global one, so two services can run in one
// test process without a word to each other.
//
//   - Logs are lines of JSON (or text) with time in UTC, level, msg, service
//     and version; a record made under a span also carries trace_id and span_id.
//   - Metrics go to a registry of their own, which begins with the Go runtime,
//     the process and rowlock_build_info.
//   - Traces are off unless an OTLP endpoint is set; then the standard OTEL_*
//     variables apply, read by the OpenTelemetry SDK itself. Off means a no-op
//     provider: no exporter, no goroutine, no spans.
//
// A whole process asks for [Config.CaptureGlobals] besides: then the lines that
// other people's code writes through log, slog, OpenTelemetry and gRPC come
// out of the same logger. A log that is JSON in all lines but the few that
// matter most cannot be searched.
package telemetry
