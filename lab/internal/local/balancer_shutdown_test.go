package local

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
)

func TestShutdownFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	arrived, goOn := make(chan struct{}), make(chan struct{})
	s := &source{}
	s.set(backend(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-goOn
		_, _ = io.WriteString(w, "done")
	}))
	b := NewBalancer("counts", s)
	ln := listen(t)
	served := make(chan error, 1)
	go func() { served <- b.Serve(ln) }()
	got := make(chan answer, 1)
	go func() {
		a, err := try(t.Context(), http.MethodGet, "http://"+ln.Addr().String(), "")
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	<-arrived
	down := make(chan error, 1)
	go func() { down <- b.Shutdown(t.Context()) }()
	if err := <-served; err != nil { // it has stopped accepting
		t.Error(err)
	}
	close(goOn)
	if a := <-got; a.body != "done" {
		t.Errorf("answer %+v", a)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

func TestShutdownCutsWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	s := &source{}
	s.set(backend(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}))
	b := NewBalancer("counts", s)
	ln := listen(t)
	served := make(chan error, 1)
	go func() { served <- b.Serve(ln) }()
	ended := make(chan error, 1)
	go func() {
		_, err := try(t.Context(), http.MethodGet, "http://"+ln.Addr().String(), "")
		ended <- err
	}()
	<-arrived
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown: %v", err)
	}
	if err := <-ended; err == nil {
		t.Error("the request was answered")
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
