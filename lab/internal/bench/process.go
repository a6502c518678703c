package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of the CPU times in /proc: USER_HZ is 100 on every architecture that Go runs on under Linux.
const clockTick = 10 * time.Millisecond

var errNoStat = errors.New("no process statistics")

// process is what /proc tells about one process.
type process struct {
	parent int
	cpu    time.Duration
	rss    int64 // bytes
}

// readProcess fails where there is no /proc, and when the process has ended.
func readProcess(pid int) (process, error) {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, fmt.Errorf("%w: %w", errNoStat, err)
	}

	return parseStat(string(raw))
}

// parseStat reads /proc/PID/stat (proc(5)). The name in its second field may hold blanks and parentheses, so the fields are counted from
// the last parenthesis.
func parseStat(stat string) (process, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])

	const parent, user, system, resident = 1, 11, 12, 21 // fields 4, 14, 15 and 24 of the manual page
	if len(fields) <= resident {
		return process{}, errNoStat
	}

	var (
		numbers [4]int64
		errs    error
	)

	for i, field := range []int{parent, user, system, resident} {
		var err error

		numbers[i], err = strconv.ParseInt(fields[field], 10, 64)
		errs = errors.Join(errs, err)
	}

	if errs != nil {
		return process{}, fmt.Errorf("%w: %w", errNoStat, errs)
	}

	return process{
		parent: int(numbers[0]),
		cpu:    time.Duration(numbers[1]+numbers[2]) * clockTick,
		rss:    numbers[3] * int64(os.Getpagesize()),
	}, nil
}

// familyCPU is the CPU time of a process and its present children: PostgreSQL has one process per connection. The connections of the
// replicas' pools outlast a run, so none of its CPU is lost with a child that ended.
func familyCPU(pid int) time.Duration {
	if pid <= 0 {
		return 0
	}

	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0 // only a bad pattern
	}

	var total time.Duration

	for _, entry := range entries {
		member, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}

		if p, err := readProcess(member); err == nil && (member == pid || p.parent == pid) {
			total += p.cpu
		}
	}

	return total
}

// machineCPU is the time that all cores together were busy since the system started; 0 where there is no /proc.
func machineCPU() time.Duration {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}

	return parseMachine(string(raw))
}

// parseMachine reads the first line of /proc/stat (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal; what follows is
// contained in the first two.
func parseMachine(stat string) time.Duration {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)

	const idle, iowait, steal = 4, 5, 8
	if len(fields) <= steal || fields[0] != "cpu" {
		return 0
	}

	var busy time.Duration

	for i, field := range fields[1 : steal+1] {
		if i+1 == idle || i+1 == iowait {
			continue
		}

		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}

		busy += time.Duration(ticks) * clockTick
	}

	return busy
}

// MemorySample is the resident memory of each replica at one moment.
type MemorySample struct {
	// At is the time since the measured window began.
	At time.Duration `json:"at_ns"`
	// RSS holds bytes, in the order of the replicas.
	RSS []int64 `json:"rss"`
}

// observation is what was seen of the processes during one window.
type observation struct {
	memory   []MemorySample
	client   time.Duration // CPU of this process
	replicas time.Duration // CPU
	database time.Duration // CPU
	machine  time.Duration // CPU of everything on this machine
}

// observe watches the processes from the end of the warm-up to the end of the window, and earlier only when ctx ends.
func observe(ctx context.Context, pids []int, databasePID int, warmup, window time.Duration) observation {
	var seen observation

	if !pause(ctx, warmup) {
		return seen
	}

	start := time.Now()
	clientBefore, replicasBefore, databaseBefore, machineBefore := ownCPU(), sumCPU(pids), familyCPU(databasePID), machineCPU()
	period := min(max(window/30, 200*time.Millisecond), time.Second)

	for {
		if rss := residentOf(pids); rss != nil {
			seen.memory = append(seen.memory, MemorySample{At: time.Since(start), RSS: rss})
		}

		left := window - time.Since(start)
		if left <= 0 || !pause(ctx, min(period, left)) {
			break
		}
	}

	seen.client = ownCPU() - clientBefore
	seen.replicas = sumCPU(pids) - replicasBefore
	seen.database = familyCPU(databasePID) - databaseBefore
	seen.machine = machineCPU() - machineBefore

	return seen
}

func sumCPU(pids []int) time.Duration {
	var total time.Duration

	for _, pid := range pids {
		if p, err := readProcess(pid); err == nil {
			total += p.cpu
		}
	}

	return total
}

// residentOf returns nil when one of the processes cannot be read.
func residentOf(pids []int) []int64 {
	rss := make([]int64, 0, len(pids))

	for _, pid := range pids {
		p, err := readProcess(pid)
		if err != nil {
			return nil
		}

		rss = append(rss, p.rss)
	}

	if len(rss) == 0 {
		return nil
	}

	return rss
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ownCPU is the user and system time that this process has used, without its children.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0 // only possible with a bad argument
	}

	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
