package prove

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// live tells once a second how the window goes, until the function that it returns is called.
func (p *prover) live(ctx context.Context, w Window, histories map[*column]*History) (stop func()) {
	if p.options.Live == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for begin := time.Now(); ; {
			p.options.Live(w.live(time.Since(begin), p.rig.columns, histories))
			if !pause(ctx, time.Second) {
				return
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// live is the state of a window in a line: the last fault, and what each service has
// answered and left open.
func (w Window) live(elapsed time.Duration, columns []*column, histories map[*column]*History) string {
	last := "no fault yet"
	for _, e := range w.Events {
		if e.At <= elapsed {
			last = string(e.Action)
		}
	}
	parts := []string{fmt.Sprintf("%s %.0f of %.0f s, %s", w.Name, elapsed.Seconds(), w.For.Seconds(), last)}
	for _, c := range columns {
		if h := histories[c]; h != nil {
			parts = append(parts, fmt.Sprintf("%s %d ok, %d open", c.service.Name, h.Count(OK), h.Count(Unknown)+h.Count(NotApplied)))
		}
	}
	return strings.Join(parts, " | ")
}
