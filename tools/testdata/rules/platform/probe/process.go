package probe

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
)

func process() []any {
	time.Sleep(0)   // want forbidigo "wait for what you mean"
	fmt.Print("")   // want forbidigo "io.Writer"
	fmt.Printf("")  // want forbidigo "io.Writer"
	fmt.Println("") // want forbidigo "io.Writer"
	print("")       // want forbidigo "io.Writer"
	println("")     // want forbidigo "io.Writer"

	return []any{
		os.Getenv,                    // want forbidigo "config.Environ"
		os.LookupEnv,                 // want forbidigo "config.Environ"
		os.Environ,                   // want forbidigo "config.Environ"
		prometheus.DefaultRegisterer, // want forbidigo "registries are injected"
		prometheus.DefaultGatherer,   // want forbidigo "registries are injected"
		prometheus.MustRegister,      // want forbidigo "registries are injected"
		prometheus.Register,          // want forbidigo "registries are injected"
		prometheus.Unregister,        // want forbidigo "registries are injected"
		otel.SetTracerProvider,       // want forbidigo "providers are injected"
		otel.SetMeterProvider,        // want forbidigo "providers are injected"
		otel.SetTextMapPropagator,    // want forbidigo "providers are injected"
		otel.GetTracerProvider,       // want forbidigo "providers are injected"
		otel.GetMeterProvider,        // want forbidigo "providers are injected"
		otel.GetTextMapPropagator,    // want forbidigo "providers are injected"
		otel.Tracer,                  // want forbidigo "providers are injected"
		otel.Meter,                   // want forbidigo "providers are injected"
		http.DefaultClient,           // want forbidigo "your own"
		http.DefaultServeMux,         // want forbidigo "your own"
		http.DefaultTransport,        // want forbidigo "your own"
		http.Handle,                  // want forbidigo "your own"
		http.HandleFunc,              // want forbidigo "your own"
	}
}
