// Package localcitus runs a Citus cluster on this machine: a coordinator and workers, each a private PostgreSQL server
// of package localpg. The extension must be installed for the server that localpg finds.
package localcitus

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/localpg"
)

// ErrNotInstalled means that the server lacks the extension citus.
var ErrNotInstalled = errors.New("the extension citus is not installed for this PostgreSQL (pg_available_extensions)")

// Options describe a cluster.
type Options struct {
	// Server holds the options of each node. Its settings override those that Citus needs.
	Server localpg.Options
	// Database is the database to create on each node and to distribute. Defaults to postgres.
	Database string
	// Workers is the initial number of workers.
	Workers int
	// Through returns the port of 127.0.0.1 at which the other nodes reach a worker, such as a proxy's port; nil selects
	// the worker's port.
	Through func(worker *Node) (port int, err error)
}

// Node is a server of a cluster.
type Node struct {
	*localpg.Server

	// URL is the database's URL for the superuser.
	URL string
	// Port is the port at which the other nodes reach it.
	Port int
}

// Cluster runs a coordinator and workers. Its methods are safe for concurrent use.
type Cluster struct {
	options  Options
	password string

	mu    sync.Mutex
	nodes []*Node // the coordinator first
}

// Start starts a cluster. It returns ErrNotInstalled if the server lacks the extension.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	if o.Database == "" {
		o.Database = "postgres"
	}

	settings := map[string]string{
		"shared_preload_libraries": "citus", "citus.node_conninfo": "sslmode=disable",
		"max_prepared_transactions": "200", "wal_level": "logical", // to move shards without blocking writers
	}
	maps.Copy(settings, o.Server.Settings)
	o.Server.Settings = settings

	c := &Cluster{options: o, password: rand.Text()}
	coordinator, err := c.start(ctx)
	if err == nil {
		err = c.Execute(ctx, coordinator, fmt.Sprintf("SELECT citus_set_coordinator_host('127.0.0.1', %d)", coordinator.Port))
	}
	for range o.Workers {
		if err == nil {
			_, err = c.AddWorker(ctx)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// start starts a server that can become a node. The nodes log in to each other with a common password.
func (c *Cluster) start(ctx context.Context) (*Node, error) {
	server, err := localpg.Start(ctx, c.options.Server)
	if err != nil && strings.Contains(err.Error(), `could not access file "citus"`) { // of shared_preload_libraries
		return nil, fmt.Errorf("%w: %w", ErrNotInstalled, err)
	}
	if err != nil {
		return nil, err
	}

	node := &Node{Server: server, Port: server.Port()}
	c.mu.Lock()
	c.nodes = append(c.nodes, node) // Stop must end it whatever happens next
	c.mu.Unlock()

	u, err := url.Parse(server.URL(c.options.Database))
	if err != nil {
		return nil, errors.New("the server's URL cannot be read") // err would repeat the password
	}
	u.User = url.UserPassword(localpg.Superuser, c.password)
	node.URL = u.String()

	database := pq.QuoteIdentifier(c.options.Database)
	err = onSession(ctx, server.URL("postgres"), func(conn *sql.Conn) error {
		if c.options.Database != "postgres" {
			if err := execute(ctx, conn, "CREATE DATABASE "+database); err != nil {
				return err
			}
		}
		return execute(ctx, conn, "ALTER ROLE "+localpg.Superuser+" PASSWORD "+pq.QuoteLiteral(c.password))
	})
	if err != nil {
		return nil, err
	}
	return node, c.Execute(ctx, node, "CREATE EXTENSION citus",
		"INSERT INTO pg_dist_authinfo VALUES (0, '"+localpg.Superuser+"', 'password="+c.password+"')")
}

// AddWorker starts one more worker and adds it to the cluster. It has no shards yet.
func (c *Cluster) AddWorker(ctx context.Context) (*Node, error) {
	node, err := c.start(ctx)
	if err != nil {
		return nil, err
	}
	if c.options.Through != nil {
		node.Port, err = c.options.Through(node)
		if err != nil {
			return nil, err
		}
	}
	return node, c.Execute(ctx, c.Coordinator(), "SELECT citus_add_node('127.0.0.1', "+strconv.Itoa(node.Port)+")")
}

// Coordinator returns the node that clients connect to.
func (c *Cluster) Coordinator() *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[0]
}

// Workers returns the workers in the order of their addition.
func (c *Cluster) Workers() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes[1:])
}

// Execute runs statements on a node, without a transaction around them. An error contains only the first words of the
// statement, which may contain a password.
func (c *Cluster) Execute(ctx context.Context, node *Node, statements ...string) error {
	return onSession(ctx, node.URL, func(conn *sql.Conn) error {
		for _, statement := range statements {
			if err := execute(ctx, conn, statement); err != nil {
				return err
			}
		}
		return nil
	})
}

// Stop ends all servers.
func (c *Cluster) Stop(ctx context.Context) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, node := range c.nodes {
		err = errors.Join(err, node.Stop(ctx))
	}
	return err
}

// onSession runs f on a new session and ends it.
func onSession(ctx context.Context, dsn string, f func(conn *sql.Conn) error) error {
	connector, err := pq.NewConnector(dsn)
	if err != nil {
		return errors.New("a node's URL cannot be used") // err may repeat the password
	}
	return localpg.OnSession(ctx, connector, f)
}

func execute(ctx context.Context, conn *sql.Conn, statement string) error {
	if _, err := conn.ExecContext(ctx, statement); err != nil {
		words := strings.Fields(statement)
		return fmt.Errorf("%s ...: %w", strings.Join(words[:min(len(words), 3)], " "), err)
	}
	return nil
}
