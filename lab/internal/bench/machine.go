package bench

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Machine says where the figures were measured.
type Machine struct {
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Platform string `json:"platform"`
	Go       string `json:"go"`
	// PostgreSQL is the server's version; Settings are those of its settings that decide how fast it commits.
	PostgreSQL string `json:"postgresql"`
	Settings   string `json:"settings"`
}

// settingsQuery reads the settings without which a figure means little.
const settingsQuery = `SELECT current_setting('server_version'),
       string_agg(name || '=' || current_setting(name), ', ' ORDER BY name)
  FROM pg_settings WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method', 'commit_delay',
       'shared_buffers', 'max_wal_size', 'max_connections')`

func machine(ctx context.Context, databaseURL string) (m Machine, err error) {
	m = Machine{
		CPU: cpuModel(), Cores: runtime.NumCPU(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
	}
	err = row(ctx, databaseURL, settingsQuery, &m.PostgreSQL, &m.Settings)
	return m, err
}

// cpuModel returns the architecture where /proc/cpuinfo names no model.
func cpuModel() string {
	raw, _ := os.ReadFile("/proc/cpuinfo") // without it there is no model
	for line := range strings.Lines(string(raw)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// observation holds what was seen of the processes in one measured window.
type observation struct {
	client, replicas, database time.Duration // CPU
	machine                    time.Duration // CPU of everything on this machine
	memory                     []float64     // resident bytes of all replicas, at regular times
}

// observe watches the processes from the end of the warm-up to the end of the window, or until ctx ends.
func observe(ctx context.Context, pids []int, databasePID int, warmup, window time.Duration) observation {
	if !sleep(ctx, warmup) {
		return observation{}
	}
	start, before := time.Now(), used(pids, databasePID)
	period := min(max(window/30, 200*time.Millisecond), time.Second)
	samples := []float64{residentOf(pids)}
	for left := window; left > 0 && sleep(ctx, min(period, left)); left = window - time.Since(start) {
		samples = append(samples, residentOf(pids))
	}
	after := used(pids, databasePID)
	return observation{
		client: after.client - before.client, replicas: after.replicas - before.replicas,
		database: after.database - before.database, machine: after.machine - before.machine, memory: samples,
	}
}

// residentOf returns 0 when one of the processes cannot be read. It reads no other process: the client's CPU counts.
func residentOf(pids []int) (bytes float64) {
	for _, pid := range pids {
		p, err := procfs.NewProc(pid)
		if err != nil {
			return 0
		}
		stat, err := p.Stat()
		if err != nil {
			return 0
		}
		bytes += float64(stat.ResidentMemory())
	}
	return bytes
}

// used returns the CPU time used until now. It leaves at 0 what cannot be read, such as where there is no /proc.
//
// PostgreSQL has one process for each connection. Those of the replicas' pools outlast a run, so none of its CPU is
// lost with a process that ended.
func used(pids []int, databasePID int) observation {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	var seen observation
	processes, _ := procfs.AllProcs()
	for _, p := range processes {
		stat, err := p.Stat()
		if err != nil {
			continue // it has ended
		}
		switch cpu := seconds(stat.CPUTime()); {
		case p.PID == os.Getpid():
			seen.client += cpu
		case slices.Contains(pids, p.PID):
			seen.replicas += cpu
		case databasePID > 0 && (p.PID == databasePID || stat.PPID == databasePID):
			seen.database += cpu
		}
	}
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if stat, err := proc.Stat(); err == nil {
			all := stat.CPUTotal
			seen.machine = seconds(all.User + all.Nice + all.System + all.IRQ + all.SoftIRQ + all.Steal)
		}
	}
	return seen
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
