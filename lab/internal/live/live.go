// Package live serves a page that shows the services of `rowlock up` under load, lets one inject faults, and compares
// what callers were told with what the database holds.
//
// A caller is told that an operation was made, that it surely was not, or, at worst, that this is unknown. What is
// stored must lie between what was acknowledged before the database was read and what can have been made by the time
// that the answer of the database came; the [Service]'s difference is how far it lies outside, and must stay 0.
package live

import (
	"context"
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/style"
)

//go:embed page.html
var page string

const (
	// interval is the time between two looks at the services.
	interval = 500 * time.Millisecond
	// remembered is how many of them a page gets that is opened later: a minute.
	remembered = 120
	// faultTime is the length of a fault.
	faultTime = 5 * time.Second
)

// Page serves the page and what it shows.
type Page struct {
	injector *fault.Injector
	services []*Service
	jobs     chan func(ctx context.Context) // faults to be injected

	mu     sync.Mutex
	past   [][]byte      // what was seen, in JSON
	number int           // of the last one
	seen   chan struct{} // closed when there is a next one
}

// New returns a page about services, whose faults injector injects.
func New(injector *fault.Injector, services []*Service) *Page {
	return &Page{
		injector: injector, services: services, jobs: make(chan func(context.Context)), seen: make(chan struct{}),
	}
}

// Run looks at the services, sends their load and injects faults until ctx ends.
func (p *Page) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, s := range p.services {
		all.Go(func() { s.drive(ctx) })
	}

	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for last := time.Now(); ; {
		select {
		case <-ticker.C:
		case job := <-p.jobs:
			all.Go(func() { job(ctx) })
			continue
		case <-ctx.Done():
			return
		}

		now := time.Now()
		states := make([]state, len(p.services))
		var looks sync.WaitGroup
		for i, s := range p.services {
			looks.Go(func() { states[i] = s.look(ctx, p.injector.DB, now.Sub(last)) })
		}
		looks.Wait()
		last = now
		p.show(states)
	}
}

// show sends what was seen to all pages.
func (p *Page) show(states []state) {
	text, err := json.Marshal(states)
	if err != nil {
		panic(err) // it holds numbers and texts
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.past = append(p.past, text)
	p.past = p.past[max(0, len(p.past)-remembered):]
	p.number++
	close(p.seen)
	p.seen = make(chan struct{})
}

// after returns what was seen after number, the number of the last one, and a channel that is closed when there is
// more.
func (p *Page) after(number int) (seen [][]byte, last int, more <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(p.number-number, len(p.past))
	return slices.Clone(p.past[len(p.past)-n:]), p.number, p.seen
}

// Handler serves the page, /events and POST /do. It refuses pages of other origins, and names that are not this
// machine's: a page could give its own name the address 127.0.0.1.
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "+
			"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = io.WriteString(w, style.Into(page)) // fails when the browser is gone
	})
	mux.HandleFunc("GET /events", p.events)
	mux.HandleFunc("POST /do", p.do)

	sameSite := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
			http.Error(w, "This page is for this machine alone.", http.StatusForbidden)
			return
		}
		sameSite.ServeHTTP(w, r)
	})
}

// events sends what was seen in the last minute, and then what is seen, as server-sent events.
func (p *Page) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	conn := http.NewResponseController(w)
	for number := 0; ; {
		seen, last, more := p.after(number)
		for _, text := range seen {
			if _, err := fmt.Fprintf(w, "data: %s\n\n", text); err != nil {
				return
			}
		}
		number = last
		if conn.Flush() != nil {
			return
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
	}
}

// do carries out what a button of the page asks for. A fault goes on after the answer.
func (p *Page) do(w http.ResponseWriter, r *http.Request) {
	i := slices.IndexFunc(p.services, func(s *Service) bool { return s.Name == r.FormValue("service") })
	if i < 0 {
		http.Error(w, "There is no such service.", http.StatusNotFound)
		return
	}
	s := p.services[i]

	what, number := r.FormValue("what"), r.FormValue("number")
	n, err := strconv.Atoi(number)
	if number != "" && (err != nil || n < 0) {
		http.Error(w, "The number is not valid.", http.StatusBadRequest)
		return
	}
	switch {
	case what == "load" && n <= maxRate:
		s.rate.Store(int64(n))
	case faults[what] != nil && n < len(s.Replicas.Replicas()):
		s.mark(what)
		select {
		case p.jobs <- func(ctx context.Context) { faults[what](ctx, p.injector, s, n) }:
		case <-r.Context().Done():
		}
	default:
		http.Error(w, "There is nothing of that name or number.", http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
