package bench

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/procfs"
)

// cpu returns the name of the processor's model, its architecture where /proc has none.
func cpu() string {
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if info, err := proc.CPUInfo(); err == nil && len(info) > 0 {
			return cmp.Or(info[0].ModelName, runtime.GOARCH)
		}
	}
	return runtime.GOARCH
}

// unbounded is longer than any run.
const unbounded = time.Hour

// observe returns the CPU time that the processes used from the end of the warm-up to the end of the window, or until
// ctx ends, in microseconds, with that of the whole machine as othersCPU; the memory of the replicas at the end; and
// its growth from the middle of the window. A window of 0 has no end.
func observe(ctx context.Context, replicas []int, databasePID int, warmup, window time.Duration) Figures {
	if !sleep(ctx, warmup) {
		return nil
	}
	before, half := used(replicas, databasePID), cmp.Or(window, unbounded)/2
	middle := Figures{}
	if sleep(ctx, half) {
		middle = used(replicas, databasePID)
		sleep(ctx, half)
	}
	seen := used(replicas, databasePID)
	for _, figure := range []string{clientCPU, replicaCPU, databaseCPU, othersCPU} {
		seen[figure] -= before[figure]
	}
	if middle[memory] > 0 {
		seen[memoryGrowth] = seen[memory] / middle[memory]
	}
	return seen
}

// used returns the CPU time used until now, and the memory of the replicas in MiB. It leaves out what cannot be read,
// such as where there is no /proc.
//
// PostgreSQL has one process for each connection. Those of the replicas' pools outlast a run, so none of its CPU is
// lost with a process that ended.
func used(replicas []int, databasePID int) Figures {
	const second = 1e6 // microseconds
	seen := Figures{}
	processes, _ := procfs.AllProcs()
	for _, p := range processes {
		stat, err := p.Stat()
		if err != nil {
			continue // it has ended
		}
		switch cpu := second * stat.CPUTime(); {
		case p.PID == os.Getpid():
			seen[clientCPU] += cpu
		case slices.Contains(replicas, p.PID):
			seen[replicaCPU] += cpu
			seen[memory] += float64(stat.ResidentMemory()) / (1 << 20)
		case databasePID > 0 && (p.PID == databasePID || stat.PPID == databasePID):
			seen[databaseCPU] += cpu
		}
	}
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if stat, err := proc.Stat(); err == nil {
			all := stat.CPUTotal
			seen[othersCPU] = second * (all.User + all.Nice + all.System + all.IRQ + all.SoftIRQ + all.Steal)
		}
	}
	return seen
}

// sleep returns false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-timer.Done()
	return ctx.Err() == nil
}
