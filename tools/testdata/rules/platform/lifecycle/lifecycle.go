package lifecycle

import (
	"context"
	"os"
	"os/signal"
)

func Interrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt)
}
