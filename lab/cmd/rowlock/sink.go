package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/lab/internal/otlp"
)

func newSink(p process) *cobra.Command {
	return &cobra.Command{
		Use: "sink", Short: "Receive spans over OTLP/HTTP and count them, until standard input ends",
		Long: "Receive spans over OTLP/HTTP, count them and drop them, until standard input ends.\n" +
			"The first line printed is the endpoint; GET " + otlp.CountPath + " there answers the number of spans.",
		Args: noWords,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSink(cmd.Context(), p) },
	}
}

func runSink(ctx context.Context, p process) error {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	server := &http.Server{Handler: &otlp.Receiver{}, ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	say(p.stdout, "http://%s", listener.Addr())
	select {
	case <-inputEnd(p.stdin):
	case <-ctx.Done():
	case err := <-served:
		return fmt.Errorf("sink: %w", err)
	}
	return server.Close() //nolint:wrapcheck // the process ends
}
