package prove

import (
	"context"
	"fmt"
	"time"

	"github.com/rowlock/rowlock/lab/internal/local"
)

// flips is how often each replica became unready by itself.
func (p *prover) flips() map[*local.Replica]int {
	n := map[*local.Replica]int{}
	for _, c := range p.rig.columns {
		for _, one := range c.set.Replicas() {
			n[one] = one.Status().Flips
		}
	}
	return n
}

// flips is the most that a replica has more than before.
func (c *column) flips(before map[*local.Replica]int) (most int) {
	for _, one := range c.set.Replicas() {
		most = max(most, one.Status().Flips-before[one])
	}
	return most
}

// resident is the memory of the largest replica of each service, in bytes.
func (p *prover) resident(ctx context.Context) map[*column]float64 {
	largest := map[*column]float64{}
	for _, c := range p.rig.columns {
		for _, one := range c.set.Replicas() {
			largest[c] = max(largest[c], p.rig.metric(ctx, one, "process_resident_memory_bytes"))
		}
	}
	return largest
}

// growth is how much more memory a replica may have after the run than after the
// window without faults.
const growth = 1.5

// baseline notes how many goroutines an idle replica has.
func (p *prover) baseline(ctx context.Context) error {
	p.idle = map[*column]int{}
	for _, c := range p.rig.columns {
		for _, one := range c.set.Replicas() {
			p.idle[c] = max(p.idle[c], p.goroutines(ctx, one))
			for sign, name := range signsOf(c.service.Name) {
				if _, shown := p.rig.series(ctx, one, name); !shown {
					return fmt.Errorf("a replica of %s does not tell its %s: /metrics has no %s", c.service.Name, sign, name)
				}
			}
		}
		if p.idle[c] == 0 {
			return fmt.Errorf("the replicas of %s do not tell their goroutines", c.service.Name)
		}
	}
	return nil
}

func (p *prover) goroutines(ctx context.Context, one *local.Replica) int {
	return int(p.rig.metric(ctx, one, "go_goroutines"))
}

// signsOf are the figures of a service's replicas that say what a window provoked.
func signsOf(service string) map[string]string {
	if service == servicePyggpot {
		return map[string]string{
			signTaken: `rowlock_lock_conflicts_total{lock="pot",reason="taken_over"}`,
			signStale: `rowlock_lock_conflicts_total{lock="pot",reason="lost"}`,
		}
	}
	return nil
}

// The signs of pyggpot's windows.
const (
	signTaken = "leases taken over"
	signStale = "stale holders refused"
)

// counted reads these figures of all replicas.
func (p *prover) counted(ctx context.Context) map[*column]map[string]float64 {
	all := map[*column]map[string]float64{}
	for _, c := range p.rig.columns {
		all[c] = map[string]float64{}
		for sign, name := range signsOf(c.service.Name) {
			for _, one := range c.set.Replicas() {
				all[c][sign] += p.rig.metric(ctx, one, name)
			}
		}
	}
	return all
}

// signs is what was counted meanwhile. A replica that died has begun at 0 again, so
// it is a little more at least.
func signs(before, after map[string]float64) map[string]int {
	n := map[string]int{}
	for sign, count := range after {
		n[sign] = max(0, int(count-before[sign]))
	}
	return n
}

// leakSlack is what an idle replica may have more of after the run than before it:
// connections of the pool and the balancer that are still open.
const leakSlack = 25

// leaks waits until the system is idle and looks for what was left behind.
func (p *prover) leaks(ctx context.Context) []Check {
	checks, resident := make([]Check, 0, 3*len(p.rig.columns)), p.resident(ctx)
	for _, c := range p.rig.columns {
		c.caller.Close()
		most := 0
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); pause(ctx, 200*time.Millisecond) {
			most = 0
			for _, one := range c.set.Replicas() {
				most = max(most, p.goroutines(ctx, one))
			}
			if most <= p.idle[c]+leakSlack {
				break
			}
		}
		checks = append(checks, check(c.service.Name+": goroutines", most <= p.idle[c]+leakSlack, "%d before, %d after", p.idle[c], most))
		if before, after := p.memory[c], resident[c]; before > 0 {
			const mebi = 1 << 20
			checks = append(checks, check(c.service.Name+": memory", after <= growth*before, "%.0f MiB without faults, %.0f MiB after all",
				before/mebi, after/mebi))
		}
		all, busy, err := p.connections(ctx, c)
		checks = append(checks, check(c.service.Name+": connections", err == nil && busy == 0, "%d open, %d not idle", all, busy))
	}
	return checks
}

// connections counts those of the service's role, and those at work.
func (p *prover) connections(ctx context.Context, c *column) (all, busy int, err error) {
	if c.maria != nil {
		return c.maria.open(ctx, c.role)
	}
	var row struct {
		All  int `db:"n"`
		Busy int `db:"busy"`
	}
	err = p.rig.reader.GetContext(ctx, &row, `SELECT count(*) AS n, count(*) FILTER (WHERE state NOT IN ('idle', 'disabled')) AS busy
		FROM pg_stat_activity WHERE usename = $1`, c.role)
	return row.All, row.Busy, err
}
