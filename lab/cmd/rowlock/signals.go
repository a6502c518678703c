package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signals turns signals into stops: the first one ends ctx, the second one closes hurry, the third one has its default
// effect. SIGHUP, of a closed terminal, counts too, so that no server is left behind.
type signals struct {
	ctx   context.Context //nolint:containedctx // the context of the process, on its way from here to main
	hurry <-chan struct{}
	stop  func()
}

func newSignals() signals {
	received := make(chan os.Signal, 2)
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancelCause(context.Background())
	hurry := make(chan struct{})
	go func() {
		cancel(fmt.Errorf("received %v: %w", <-received, context.Canceled))
		<-received
		close(hurry)
		signal.Stop(received)
	}()
	return signals{ctx: ctx, hurry: hurry, stop: func() { signal.Stop(received) }}
}

// hurried returns a context that ends with ctx or when hurry is closed.
func hurried(ctx context.Context, hurry <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-hurry:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// stopTimeout bounds the end of the servers of a command that is over or was interrupted.
const stopTimeout = 30 * time.Second

// stopContext returns a context to stop servers in, also after the end of ctx.
func stopContext(ctx context.Context, p process) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	ctx, cancelHurry := hurried(ctx, p.hurry)
	return ctx, func() { cancelHurry(); cancel() }
}
