// Package prometheus runs a private Prometheus for tests.
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

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// ErrNotInstalled reports that there is no Prometheus on this machine.
var ErrNotInstalled = errors.New(
	"prometheus is not installed (`apt-get install prometheus`, `brew install prometheus`)")

const (
	// startTimeout bounds one start. starts bounds the attempts: another program may take the free port first.
	startTimeout = 30 * time.Second
	starts       = 3
	stopTimeout  = 10 * time.Second
	startPoll    = 50 * time.Millisecond
)

// Options configure a server.
type Options struct {
	// Dir holds its configuration and data. It must exist.
	Dir string
	// Interval is how often it scrapes and evaluates the rules; whole milliseconds.
	Interval time.Duration
	// Rules are the paths of files with rules.
	Rules []string
}

// Server is a running Prometheus. Its API is that of Prometheus' own client.
type Server struct {
	v1.API

	dir     string
	process *guard.Process
	log     *os.File
}

// Target is an address to scrape.
type Target struct {
	// Addr is the host and port of /metrics.
	Addr string
	// Labels are set on all its series, over labels of the same name in /metrics, which become exported_<name>.
	Labels map[string]string
}

// Start starts a server without targets. It returns ErrNotInstalled where there is no Prometheus. The server ends by
// Stop, or with the calling process.
func Start(ctx context.Context, o Options) (*Server, error) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, ErrNotInstalled
	}
	s := &Server{dir: o.Dir}
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

// configure writes the configuration as JSON, which YAML contains.
func (s *Server) configure(o Options) error {
	interval := strconv.FormatInt(o.Interval.Milliseconds(), 10) + "ms"
	return s.write("prometheus.yml", map[string]any{
		"global": map[string]any{
			"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval,
		},
		"rule_files": o.Rules,
		"scrape_configs": []any{map[string]any{
			"job_name":        "targets",
			"file_sd_configs": []any{map[string]any{"files": []string{s.file(targetsFile)}, "refresh_interval": "1s"}},
		}},
	})
}

const targetsFile = "targets.json"

func (s *Server) file(name string) string { return filepath.Join(s.dir, name) }

// write writes a file that Prometheus reads. It is renamed into place, so that no half of it is read.
func (s *Server) write(name string, content any) error {
	text, err := json.Marshal(content)
	if err == nil {
		err = errors.Join(os.WriteFile(s.file(name+".new"), text, 0o600), os.Rename(s.file(name+".new"), s.file(name)))
	}
	if err != nil {
		return fmt.Errorf("configure prometheus: %w", err)
	}
	return nil
}

func (s *Server) start(ctx context.Context, program string) error {
	port, err := guard.FreePort(ctx)
	if err != nil {
		return err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	client, err := api.NewClient(
		api.Config{Address: "http://" + address, RoundTripper: &http.Transport{IdleConnTimeout: time.Second}},
	)
	if err != nil {
		return fmt.Errorf("the client of prometheus: %w", err)
	}
	s.API = v1.NewAPI(client)
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
	return s.awaitReady(ctx)
}

// awaitReady waits until queries are answered.
func (s *Server) awaitReady(ctx context.Context) error {
	ready, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(startPoll)
	defer ticker.Stop()
	for {
		_, _, _, err := s.Query(ready, "vector(1)", time.Now())
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
			continue
		case <-s.process.Done():
			err = errors.New("it ended")
		case <-ready.Done():
		}
		text, _ := os.ReadFile(s.file("prometheus.log")) // only for the message
		last := strings.TrimSpace(string(text[max(0, len(text)-2000):]))
		return errors.Join(fmt.Errorf("prometheus is not ready: %w: %s", err, last), s.Stop(context.WithoutCancel(ctx)))
	}
}

// Scrape replaces the targets; it takes effect within about a second.
func (s *Server) Scrape(targets []Target) error {
	groups := make([]map[string]any, 0, len(targets))
	for _, t := range targets {
		groups = append(groups, map[string]any{"targets": []string{t.Addr}, "labels": t.Labels})
	}
	return s.write(targetsFile, groups)
}

// Stop ends the server by SIGTERM, and by SIGKILL after ten seconds.
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
	return errors.Join(err, s.log.Close())
}
