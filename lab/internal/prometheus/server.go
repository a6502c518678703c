// Package prometheus runs a private Prometheus, for tests and pictures, and asks
// it by its HTTP API.
package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// ErrNotInstalled means that there is no Prometheus on this machine.
var ErrNotInstalled = errors.New("prometheus is not installed (`apt-get install prometheus`, `brew install prometheus`)")

const (
	// startTimeout bounds one start; starts is how many are tried, as another program may take the free port first.
	startTimeout = 30 * time.Second
	starts       = 3
	stopTimeout  = 10 * time.Second
	startPoll    = 50 * time.Millisecond
)

// Options say what it does.
type Options struct {
	// Dir holds its configuration and data. It must exist.
	Dir string
	// Interval is how often it scrapes and evaluates the rules; whole milliseconds.
	Interval time.Duration
	// Rules are files with rules.
	Rules []string
}

// Server is a running Prometheus.
type Server struct {
	base    string
	dir     string
	http    *http.Client
	process *guard.Process
	log     *os.File
}

// Target is something to scrape.
type Target struct {
	// Addr is the host and port of /metrics.
	Addr string
	// Labels go with all its series. They win over labels of the same name in /metrics, which become exported_<name>.
	Labels map[string]string
}

// Start starts a server without targets. It fails with ErrNotInstalled where there
// is none. Stop ends it; the end of the calling process does too.
func Start(ctx context.Context, o Options) (*Server, error) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, ErrNotInstalled
	}
	s := &Server{dir: o.Dir, http: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
	if err := errors.Join(s.Scrape(nil), s.configure(o)); err != nil {
		return nil, err
	}
	for range starts {
		if err = s.start(ctx, program); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// configure writes the configuration. YAML reads JSON.
func (s *Server) configure(o Options) error {
	interval := strconv.FormatInt(o.Interval.Milliseconds(), 10) + "ms"
	config, err := json.Marshal(map[string]any{
		"global": map[string]any{
			"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval,
		},
		"rule_files": o.Rules,
		"scrape_configs": []any{map[string]any{
			"job_name":        "targets",
			"file_sd_configs": []any{map[string]any{"files": []string{s.targets()}, "refresh_interval": "1s"}},
		}},
	})
	if err != nil {
		return fmt.Errorf("configure prometheus: %w", err)
	}
	if err := os.WriteFile(s.file("prometheus.yml"), config, 0o600); err != nil {
		return fmt.Errorf("configure prometheus: %w", err)
	}
	return nil
}

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

func (s *Server) targets() string { return s.file("targets.json") }

func (s *Server) start(ctx context.Context, program string) error {
	port, err := localpg.FreePort(ctx)
	if err != nil {
		return err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	s.base = "http://" + address
	if s.log, err = os.Create(s.file("prometheus.log")); err != nil {
		return fmt.Errorf("the log of prometheus: %w", err)
	}
	s.process, err = guard.Start(guard.Spec{
		Path: program,
		Args: []string{
			"--config.file=" + s.file("prometheus.yml"), "--storage.tsdb.path=" + s.file("data"),
			"--web.listen-address=" + address, "--log.level=warn",
		},
		Dir: s.dir, Output: s.log, Stop: syscall.SIGTERM, Grace: stopTimeout,
	})
	if err != nil {
		return errors.Join(fmt.Errorf("start prometheus: %w", err), s.log.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(startPoll)
	defer ticker.Stop()
	for {
		if err = s.get(ctx, "/-/ready", nil); err == nil {
			return nil
		}
		select {
		case <-ticker.C:
			continue
		case <-s.process.Done():
			err = errors.New("it ended")
		case <-ctx.Done():
		}
		return errors.Join(fmt.Errorf("prometheus is not ready: %w: %s", err, s.said()), s.Stop(context.WithoutCancel(ctx)))
	}
}

// said is the end of its log.
func (s *Server) said() string {
	text, _ := os.ReadFile(s.file("prometheus.log")) // what cannot be read says nothing
	return strings.TrimSpace(string(text[max(0, len(text)-2000):]))
}

// Scrape replaces the targets; it takes effect within a second or so.
func (s *Server) Scrape(targets []Target) error {
	groups := make([]map[string]any, 0, len(targets))
	for _, t := range targets {
		groups = append(groups, map[string]any{"targets": []string{t.Addr}, "labels": t.Labels})
	}
	text, err := json.Marshal(groups)
	if err != nil {
		return fmt.Errorf("the targets of prometheus: %w", err)
	}
	// Renamed into place: a half-written file would be read.
	fresh := s.targets() + ".new"
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return fmt.Errorf("the targets of prometheus: %w", err)
	}
	if err := os.Rename(fresh, s.targets()); err != nil {
		return fmt.Errorf("the targets of prometheus: %w", err)
	}
	return nil
}

// Stop ends it.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	err := s.process.Signal(syscall.SIGTERM)
	select {
	case <-s.process.Done():
	case <-ctx.Done():
		err = errors.Join(err, s.process.Signal(syscall.SIGKILL))
		<-s.process.Done()
	}
	s.http.CloseIdleConnections()
	return errors.Join(err, s.log.Close())
}
