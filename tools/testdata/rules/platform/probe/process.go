package probe

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
)

// What is injected passes.
func injected(r prometheus.Registerer) error {
	return r.Register(nil)
}

func process() []any {
	time.Sleep(0)   // want forbidigo "wait for what you mean"
	fmt.Println("") // want forbidigo "io.Writer"
	print("")       // want forbidigo "io.Writer"

	return []any{
		os.Getenv,                    // want forbidigo "config.Environ"
		prometheus.DefaultRegisterer, // want forbidigo "registries are injected"
		prometheus.MustRegister,      // want forbidigo "registries are injected"
		otel.SetTracerProvider,       // want forbidigo "providers are injected"
		otel.Tracer,                  // want forbidigo "providers are injected"
		http.DefaultClient,           // want forbidigo "your own"
		http.Handle,                  // want forbidigo "your own"
	}
}
