package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/bench"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/sink"
)

// withTracing runs measure while replicas that trace are up beside those that do not, and a sink in a process of its own: the generator
// has one thread, which should not receive spans besides.
func withTracing(
	ctx context.Context, flags benchFlags, p process, service *running, system bench.System, measure func(bench.System) error,
) (err error) {
	endpoint, stop, err := startSink(ctx, p)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, stop()) }()

	system.Spans = func(ctx context.Context) (int64, error) { return spansAt(ctx, endpoint) }
	system.Traced = make(map[string]bench.Fleet)

	var sets []*local.Set

	defer func() {
		stopCtx, cancel := benchStopContext(ctx, p)
		defer cancel()

		for _, set := range sets {
			err = errors.Join(err, set.Stop(stopCtx))
		}
	}()

	for scenario, share := range bench.TraceScenarios() {
		environ := maps.Clone(service.environ)
		environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
		environ["OTEL_TRACES_SAMPLER"] = "parentbased_traceidratio"
		environ["OTEL_TRACES_SAMPLER_ARG"] = strconv.FormatFloat(share, 'f', -1, 64)

		set, err := startFleet(ctx, flags, service, flags.service+"-"+scenario, environ)
		if err != nil {
			return err
		}

		sets = append(sets, set)
		system.Traced[scenario] = fleetOf(set)
	}

	return measure(system)
}

// startSink starts `rowlock sink`.
func startSink(ctx context.Context, p process) (endpoint string, stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("bench: find the running program: %w", err)
	}

	cmd := exec.CommandContext(context.WithoutCancel(ctx), self, "sink")
	cmd.Stderr = p.stderr

	stdin, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, fmt.Errorf("bench: the sink: %w", err)
	}

	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, fmt.Errorf("bench: the sink: %w", err)
	}

	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("bench: the sink: %w", err)
	}

	stop = func() error {
		_ = stdin.Close() // it ends by that

		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("bench: the sink: %w", err)
		}

		return nil
	}

	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("bench: the sink: %w", err), stop())
	}

	return strings.TrimSpace(line), stop, nil
}

// spansAt asks a sink how many spans it has got.
func spansAt(ctx context.Context, endpoint string) (n int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+sink.CountPath, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("ask the sink: %w", err)
	}

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}

	response, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("ask the sink: %w", err)
	}

	defer func() { err = errors.Join(err, response.Body.Close()) }()

	raw, err := io.ReadAll(io.LimitReader(response.Body, 64))
	if err != nil {
		return 0, fmt.Errorf("ask the sink: %w", err)
	}

	return strconv.ParseInt(string(raw), 10, 64) //nolint:wrapcheck // it quotes what came
}
