package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/platform/localcitus"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
)

// Citus runs a coordinator and workers over which it distributes a database. The nodes reach each worker through a
// proxy.
type Citus struct {
	cluster *localcitus.Cluster

	changing sync.Mutex // held while a worker is away or shards move

	mu      sync.Mutex
	proxies []*faultproxy.Proxy // of the workers, in their order
}

// StartCitus starts a coordinator and two workers with a database. It returns localcitus.ErrNotInstalled where the
// server lacks the extension.
func StartCitus(ctx context.Context, database string, o localpg.Options) (_ *Citus, err error) {
	settings := map[string]string{
		"citus.shard_count": "8", // few, so that the clients of a service meet on each
		// Sooner than by default, as the services' timeouts are.
		"citus.recover_2pc_interval": "2s",
		// Times deadlock_timeout. Each search asks all nodes.
		"citus.distributed_deadlock_detection_factor": "200",
	}

	maps.Copy(settings, o.Settings)
	o.Settings = settings
	c := &Citus{}
	c.cluster, err = localcitus.Start(ctx, localcitus.Options{
		Server: o, Database: database, Workers: 2, Through: c.through,
	})
	if err != nil {
		c.closeProxies()
		return nil, err
	}
	return c, nil
}

// through starts the proxy before a worker.
func (c *Citus) through(worker *localcitus.Node) (port int, err error) {
	proxy, err := faultproxy.Start(worker.Address(), nil)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	c.proxies = append(c.proxies, proxy)
	c.mu.Unlock()
	u, err := url.Parse(proxy.DSN(worker.URL))
	if err != nil {
		return 0, errors.New("the proxy's URL cannot be read") // err would repeat the password
	}
	return strconv.Atoi(u.Port())
}

// Coordinator returns the server that clients connect to.
func (c *Citus) Coordinator() *localpg.Server { return c.cluster.Coordinator().Server }

// URL returns the URL of the database, by the superuser.
func (c *Citus) URL() string { return c.cluster.Coordinator().URL }

// Stop ends all servers and proxies.
func (c *Citus) Stop(ctx context.Context) error {
	err := c.cluster.Stop(ctx)
	c.closeProxies()
	return err
}

func (c *Citus) closeProxies() {
	for _, proxy := range c.all() {
		proxy.Close()
	}
}

func (c *Citus) all() []*faultproxy.Proxy {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.proxies)
}

// StopCutting removes the cuts of replies that have not come.
func (c *Citus) StopCutting() {
	for _, proxy := range c.all() {
		proxy.StopCutting()
	}
}

// Recovered waits until no node holds a prepared transaction, for a few intervals in which the coordinator looks for
// those whose second phase was lost, and returns how many are left.
func (c *Citus) Recovered(ctx context.Context) (left int, err error) {
	const limit = 15 * time.Second
	for deadline := time.Now().Add(limit); ; {
		left, err = c.OnAllNodes(ctx, `SELECT count(*) FROM pg_prepared_xacts`)
		if err != nil || left == 0 || time.Now().After(deadline) || !Wait(ctx, 100*time.Millisecond) {
			return left, err
		}
	}
}

// OnAllNodes returns the sum of what the nodes answer to a query.
func (c *Citus) OnAllNodes(ctx context.Context, query string) (sum int, err error) {
	err = local.Read(ctx, c.URL(), `SELECT sum(result::bigint) FROM run_command_on_all_nodes($node$`+query+`$node$)`, &sum)
	return sum, err
}

// change carries out an action that changes the cluster, and returns which actions were done how often.
func (c *Citus) change(ctx context.Context, e Event) (done map[Action]int, err error) {
	c.changing.Lock()
	defer c.changing.Unlock()
	switch e.Action {
	case KillWorker:
		return map[Action]int{KillWorker: 1}, c.kill(ctx, e)
	case MoveShard:
		return c.moveAndBack(ctx, e.Pick)
	default:
		return c.grow(ctx)
	}
}

// kill ends a worker by SIGKILL and starts it again after the event's time.
func (c *Citus) kill(ctx context.Context, e Event) error {
	workers, proxies := c.cluster.Workers(), c.all()
	i := e.Pick % len(workers)
	err := workers[i].Crash(ctx)
	proxies[i].Refuse() // as the worker's port does
	Wait(ctx, e.For)
	return errors.Join(err, workers[i].Restart(context.WithoutCancel(ctx)), proxies[i].Accept())
}

// cut cuts a reply of a worker to the coordinator.
func (c *Citus) cut(e Event, when faultproxy.When, options ...faultproxy.Option) {
	proxies := c.all()
	proxies[e.Pick/2%len(proxies)].Cut(when, how(e), options...)
}

// shard is one shard of a group of tables whose shards move together.
type shard struct {
	ID    int64 `json:"id"`
	Group int64 `json:"group"`
	Port  int   `json:"port"` // of the worker that has it
}

// shards returns the shards of one table of each group, in their order.
func (c *Citus) shards(ctx context.Context) (groups map[int64][]shard, err error) {
	var text []byte
	err = local.Read(ctx, c.URL(), `SELECT json_agg(shards) FROM (
		SELECT s.shardid AS id, t.colocationid AS group, n.nodeport AS port
		FROM pg_dist_partition t JOIN pg_dist_shard s USING (logicalrelid)
		JOIN pg_dist_placement p USING (shardid) JOIN pg_dist_node n USING (groupid)
		WHERE t.partmethod = 'h' AND t.logicalrelid::oid =
			(SELECT min(o.logicalrelid::oid) FROM pg_dist_partition o WHERE o.colocationid = t.colocationid)
		ORDER BY s.shardid) shards`, &text)
	if err != nil {
		return nil, err
	}

	var all []shard
	err = json.Unmarshal(text, &all)
	groups = map[int64][]shard{}
	for _, one := range all {
		groups[one.Group] = append(groups[one.Group], one)
	}
	return groups, err
}

// moveAndBack moves a shard of each group to another worker and back.
func (c *Citus) moveAndBack(ctx context.Context, pick int) (done map[Action]int, err error) {
	done = map[Action]int{}
	groups, err := c.shards(ctx)
	if err != nil {
		return done, err
	}

	workers := c.cluster.Workers()
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		one := groups[id][pick%len(groups[id])]
		at := slices.IndexFunc(workers, func(w *localcitus.Node) bool { return w.Port == one.Port })
		there := workers[(at+1)%len(workers)].Port
		if err := c.move(ctx, one, there); err != nil {
			return done, err
		}
		back := shard{ID: one.ID, Port: there}
		if err := c.move(ctx, back, one.Port); err != nil {
			return done, err
		}
		done[MoveShard] += 2
	}
	return done, nil
}

// grow adds a worker and moves half of the first one's shards there, of each group.
func (c *Citus) grow(ctx context.Context) (done map[Action]int, err error) {
	done = map[Action]int{}
	worker, err := c.cluster.AddWorker(ctx)
	if err != nil {
		return done, err
	}

	done[AddWorker] = 1
	// A shard is not moved to a worker that lacks one of the reference tables.
	if err := local.Send(ctx, c.URL(), `SELECT replicate_reference_tables()`); err != nil {
		return done, err
	}

	groups, err := c.shards(ctx)
	if err != nil {
		return done, err
	}
	first := c.cluster.Workers()[0].Port
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		full := slices.DeleteFunc(groups[id], func(s shard) bool { return s.Port != first })
		for _, one := range full[:(len(full)+1)/2] {
			if err := c.move(ctx, one, worker.Port); err != nil {
				return done, err
			}
			done[MoveShard]++
		}
	}
	return done, nil
}

// move moves a shard, and those of other tables that belong to it, while their writers wait. The other way, by logical
// replication, has lost changes that were acknowledged during the move; docs/scaling.md has the figures.
func (c *Citus) move(ctx context.Context, one shard, to int) error {
	// Without parameters: a coordinator that was sent some has crashed in a function of Citus.
	return local.Send(ctx, c.URL(), fmt.Sprintf(
		`SELECT citus_move_shard_placement(%d, '127.0.0.1', %d, '127.0.0.1', %d, 'block_writes')`, one.ID, one.Port, to))
}
