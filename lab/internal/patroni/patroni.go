// Package patroni runs two PostgreSQL servers under Patroni, a manager that promotes a standby when the primary is
// lost, with a private etcd. All of it ends with this process.
package patroni

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/localpg/guard"
)

// ErrNotInstalled means that Patroni or etcd is missing.
var ErrNotInstalled = errors.New("patroni and etcd are not both installed (apt-get install patroni etcd-server)")

// Cluster runs a primary and a synchronous standby.
type Cluster struct {
	dir      string
	user     *guard.User
	binDir   string
	password string
	settings map[string]string
	programs map[string]string // paths by name
	etcd     *guard.Server
	members  [2]*member

	mu sync.Mutex // held while the servers move
}

// Start starts etcd and both servers, and makes the database. It returns ErrNotInstalled where a program is missing. Of
// the options it observes Parent, Settings and Environ.
func Start(ctx context.Context, database string, o localpg.Options) (_ *Cluster, err error) {
	c := &Cluster{password: rand.Text(), settings: o.Settings, programs: map[string]string{}}
	for _, name := range []string{"patroni", "etcd"} {
		if c.programs[name], err = exec.LookPath(name); err != nil {
			return nil, ErrNotInstalled
		}
	}

	if c.binDir, err = localpg.Find(ctx, o.Environ); err != nil {
		return nil, err
	}
	if c.user, err = guard.Unprivileged(); err != nil {
		return nil, err
	}

	if c.dir, err = guard.TempFolder(o.Parent, "rowlock-patroni-*"); err != nil {
		return nil, err
	}
	if err = c.start(ctx); err == nil {
		err = local.Database(ctx, c.URL("postgres"), database)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// start starts etcd and the members. The first member becomes the primary.
func (c *Cluster) start(ctx context.Context) (err error) {
	if c.etcd, err = c.newEtcd(ctx); err != nil {
		return err
	}
	if err := c.etcd.Start(ctx, 0); err != nil {
		return err
	}
	for i := range c.members {
		if c.members[i], err = c.newMember(ctx, fmt.Sprintf("pg%d", i+1)); err != nil {
			return err
		}
		if err := c.members[i].Start(ctx, 0); err != nil {
			return err
		}
	}
	_, _, err = c.roles(ctx)
	return err
}

// folder makes a folder of the servers' user.
func (c *Cluster) folder(name string) (string, error) {
	dir := filepath.Join(c.dir, name)
	return dir, errors.Join(os.Mkdir(dir, 0o700), c.user.Own(dir))
}

// program returns what runs one of the programs in a folder, which goes with this process.
func (c *Cluster) program(name, dir string, args ...string) guard.Spec {
	return guard.Spec{
		Path: c.programs[name], Args: args, Dir: dir, User: c.user, Remove: dir, Grace: stopGrace,
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + dir},
	}
}

// stopGrace is the time that Patroni may take to stop PostgreSQL in order.
const stopGrace = 20 * time.Second

func (c *Cluster) newEtcd(ctx context.Context) (*guard.Server, error) {
	dir, err := c.folder("etcd")
	if err != nil {
		return nil, err
	}
	peer, err := guard.FreePort(ctx)
	if err != nil {
		return nil, err
	}

	peers := address(peer)
	var server *guard.Server
	server = guard.NewServer(guard.Config{
		Name: "etcd", LogFile: filepath.Join(c.dir, "etcd.log"), Stop: syscall.SIGTERM, Kill: syscall.SIGKILL,
		Spec: func(port int) (guard.Spec, error) {
			clients := address(port)
			return c.program("etcd", dir, "--data-dir", filepath.Join(dir, "data"),
				"--listen-client-urls", clients, "--advertise-client-urls", clients,
				"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers), nil
		},
		Ready: func(ctx context.Context) error { return ask(ctx, address(server.Port())+"/health") },
	})
	return server, nil
}

func address(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

// ask returns nil when the address is answered 200.
func ask(ctx context.Context, url string) error {
	return request(ctx, http.MethodGet, url, nil)
}

// URL returns the URL of a database, which names both servers and lets clients choose the primary.
func (c *Cluster) URL(database string) string {
	one := fmt.Sprintf("postgres://%s:%s@127.0.0.1/%s?sslmode=disable", localpg.Superuser, c.password, database)
	return local.OnBoth(one, c.members[0].Port(), c.members[1].Port())
}

// Stop ends the standby, the primary and etcd, and removes their files.
func (c *Cluster) Stop(ctx context.Context) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.members {
		if m != nil && m.began {
			err = errors.Join(err, m.Stop(ctx))
		}
	}
	if c.etcd != nil && c.etcd.Port() != 0 {
		err = errors.Join(err, c.etcd.Stop(ctx))
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// Move lets Patroni switch over to the standby, or kills Patroni's leader together with its PostgreSQL and starts it
// again when the standby was promoted. It returns when the old primary is a synchronous standby.
func (c *Cluster) Move(ctx context.Context, a fault.Action, lost func(at time.Time)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	primary, standby, err := c.roles(ctx)
	if err != nil {
		return err
	}

	at := time.Now()
	if a == fault.Switchover {
		if err = primary.handOver(ctx, standby); err == nil {
			lost(at)
		}
	} else if err = primary.crash(ctx); err == nil {
		lost(at)
		if err = until(ctx, func(ctx context.Context) error { return standby.is(ctx, "primary") }); err == nil {
			err = primary.Restart(ctx)
		}
	}
	if err == nil {
		_, _, err = c.roles(ctx)
	}
	return err
}

// settleLimit bounds the wait for Patroni, which may have to notice a loss and to rewind a server.
const settleLimit = time.Minute

// roles returns the members when one is the primary and the other one its synchronous standby.
func (c *Cluster) roles(ctx context.Context) (primary, standby *member, err error) {
	primary, standby = c.members[0], c.members[1]
	err = until(ctx, func(ctx context.Context) error {
		err := errors.Join(primary.is(ctx, "primary"), standby.is(ctx, "synchronous"))
		if err != nil {
			primary, standby = standby, primary
		}
		return err
	})
	return primary, standby, err
}

// until asks again and again until there is no error, or settleLimit has passed.
func until(ctx context.Context, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil || !fault.Wait(ctx, 20*time.Millisecond) {
			return err
		}
	}
}

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
	var pid int
	text, err := os.ReadFile(filepath.Join(m.data(), "postmaster.pid"))
	if err == nil {
		_, err = fmt.Sscan(string(text), &pid) // the first line
	}
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
		return err
	}

	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %.200s", url, resp.Status, text)
	}
	return err
}
