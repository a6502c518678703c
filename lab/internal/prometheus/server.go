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
	"syscall"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// ErrNotInstalled reports that there is no Prometheus on this machine.
var ErrNotInstalled = errors.New(
	"prometheus is not installed (`apt-get install prometheus`, `brew install prometheus`)")

// stopTimeout bounds an orderly stop.
const stopTimeout = 10 * time.Second

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

	dir    string
	server *guard.Server
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
	s.server = guard.NewServer(guard.Config{
		Name: "prometheus", LogFile: s.file("prometheus.log"), Stop: syscall.SIGTERM, Kill: syscall.SIGKILL,
		Spec: func(port int) (guard.Spec, error) {
			return guard.Spec{
				Path: program,
				Args: []string{
					"--config.file=" + s.file("prometheus.yml"), "--storage.tsdb.path=" + s.file("data"),
					"--web.listen-address=127.0.0.1:" + strconv.Itoa(port), "--log.level=warn",
				},
				Dir: s.dir, Grace: stopTimeout,
			}, nil
		},
		Ready: s.ready,
	})
	if err := s.server.Start(ctx, 0); err != nil {
		return nil, err
	}
	return s, nil
}

// ready connects the API and returns nil when it answers.
func (s *Server) ready(ctx context.Context) error {
	client, err := api.NewClient(api.Config{
		Address: "http://" + s.server.Address(), RoundTripper: &http.Transport{IdleConnTimeout: time.Second},
	})
	if err != nil {
		return fmt.Errorf("the client of prometheus: %w", err)
	}
	s.API = v1.NewAPI(client)
	if _, err := s.Buildinfo(ctx); err != nil {
		return fmt.Errorf("ask prometheus for its version: %w", err)
	}
	return nil
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
	return s.server.Stop(ctx)
}
