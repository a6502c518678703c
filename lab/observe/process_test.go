package observe

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
)

// process is one process of a service, with its log.
type process struct {
	*fleet

	mu  sync.Mutex
	log []string
}

func (p *process) keep(_ string, line []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log = append(p.log, string(line))
}

// lines returns what it has logged.
func (p *process) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.log)
}

// logged returns the number of lines that contain text.
func (p *process) logged(text string) int {
	return len(slices.DeleteFunc(p.lines(), func(line string) bool { return !strings.Contains(line, text) }))
}

// stop ends it by SIGTERM and reports an end that is not in order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if err := p.set.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Errorf("stop %s: %v", p.service, err)
	}
}
