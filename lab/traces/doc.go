// Package traces holds the tests of what an operator sees of the services from
// outside: the spans that they export over OTLP and the lines that they log, from
// real processes, in good days and in bad ones. It has no code of its own.
//
// Whatever a client sends is marked, and a mark that comes back in a span or in a
// log line fails the tests.
package traces
