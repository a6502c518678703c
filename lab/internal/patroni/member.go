package patroni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// member runs a Patroni and its PostgreSQL, on whose port it is.
type member struct {
	*guard.Server

	name  string
	dir   string
	rest  int  // the port of Patroni's API
	began bool // it was started once
}

func (c *Cluster) newMember(ctx context.Context, name string) (m *member, err error) {
	m = &member{name: name}
	if m.dir, err = c.folder(name); err != nil {
		return nil, err
	}
	if m.rest, err = guard.FreePort(ctx); err != nil {
		return nil, err
	}
	m.Server = guard.NewServer(guard.Config{
		Name: "patroni", LogFile: filepath.Join(c.dir, name+".log"), Stop: syscall.SIGTERM, Kill: syscall.SIGKILL,
		Spec: func(port int) (guard.Spec, error) {
			m.began = true
			file := filepath.Join(m.dir, "patroni.yml")
			return c.program("patroni", m.dir, file), c.user.WriteFile(file, c.config(m, port))
		},
		Ready: func(ctx context.Context) error { return m.is(ctx, "health") },
	})
	return m, nil
}

// config returns Patroni's configuration, which may be JSON. The times are as short as it allows: a leader is given up
// after ttl.
func (c *Cluster) config(m *member, port int) string {
	parameters := map[string]any{"max_connections": 400, "wal_log_hints": "on", "unix_socket_directories": ""}
	for name, value := range c.settings {
		parameters[name] = value
	}
	login := func(name string) map[string]string {
		return map[string]string{"username": name, "password": c.password}
	}
	config := map[string]any{
		"scope": "rowlock", "name": m.name,
		"restapi": map[string]string{"listen": host(m.rest), "connect_address": host(m.rest)},
		"etcd3":   map[string]string{"host": host(c.etcd.Port())},
		"bootstrap": map[string]any{
			"dcs": map[string]any{
				"ttl": 5, "loop_wait": 1, "retry_timeout": 2, "synchronous_mode": true,
				"postgresql": map[string]any{"use_pg_rewind": true, "parameters": parameters},
			},
			"initdb": []any{map[string]string{"encoding": "UTF8"}, map[string]string{"locale": "C"}},
		},
		"postgresql": map[string]any{
			"listen": host(port), "connect_address": host(port), "data_dir": m.data(), "bin_dir": c.binDir,
			"pgpass": filepath.Join(m.dir, "pgpass"),
			"pg_hba": []string{"host all,replication all 127.0.0.1/32 scram-sha-256"},
			"authentication": map[string]any{
				"superuser": login(localpg.Superuser), "replication": login("replicator"),
			},
		},
	}
	text, err := json.Marshal(config)
	if err != nil {
		panic("a map of texts and numbers cannot be encoded")
	}
	return string(text)
}

func host(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func (m *member) data() string { return filepath.Join(m.dir, "data") }

// is returns nil when the member has the role: "primary", "synchronous", or "health" for any.
func (m *member) is(ctx context.Context, role string) error {
	return ask(ctx, address(m.rest)+"/"+role)
}

// await returns when the member has the role.
func (m *member) await(ctx context.Context, role string) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		err := m.is(ctx, role)
		if err == nil {
			return nil
		}
		if !fault.Wait(ctx, 20*time.Millisecond) {
			return fmt.Errorf("%s does not become %s: %w", m.name, role, err)
		}
	}
}

// handOver asks Patroni for a switchover and returns when it is done.
func (m *member) handOver(ctx context.Context, to *member) error {
	body := fmt.Sprintf(`{"leader":%q,"candidate":%q}`, m.name, to.name)
	return request(ctx, http.MethodPost, address(m.rest)+"/switchover", strings.NewReader(body))
}

// crash kills Patroni and its PostgreSQL, and returns when that answers no more.
func (m *member) crash(ctx context.Context) error {
	if err := m.Crash(); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(m.data(), "postmaster.pid"))
	if err != nil {
		return fmt.Errorf("find the server of %s: %w", m.name, err)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	pid, err := strconv.Atoi(string(line))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		return fmt.Errorf("kill the server of %s: %w", m.name, err)
	}
	for !guard.IsFree(ctx, m.Port()) {
		if !fault.Wait(ctx, time.Millisecond) {
			return ctx.Err()
		}
	}
	return nil
}

// request sends a request and returns nil when it is answered 200.
func request(ctx context.Context, method, url string, body io.Reader) error {
	const patience = 30 * time.Second // a switchover takes its time
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("ask %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", url, resp.Status, bytes.TrimSpace(text[:min(len(text), 200)]))
	}
	return nil
}
