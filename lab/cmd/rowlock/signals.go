package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// newSignals turns signals into stops: the first one ends ctx, the second one ends hurry, the third one has its default
// effect. SIGHUP, of a closed terminal, counts too, so that no server is left behind.
func newSignals() (ctx, hurry context.Context, stop func()) {
	received := make(chan os.Signal, 2)
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	ctx, cancel := context.WithCancelCause(context.Background())
	hurry, now := context.WithCancel(context.Background())
	go func() {
		cancel(fmt.Errorf("received %v: %w", <-received, context.Canceled))
		<-received
		now()
		signal.Stop(received)
	}()
	return ctx, hurry, func() { signal.Stop(received) }
}

// stopTimeout bounds the end of what a command runs when it is over or was interrupted.
const stopTimeout = 30 * time.Second

// stopping returns a context to stop processes in: it ends after stopTimeout or with the second Ctrl-C.
func (p process) stopping() (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.hurry, stopTimeout)
}
