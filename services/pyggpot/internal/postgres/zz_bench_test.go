package postgres

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"sync"
	"time"

	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestZZBench(t *testing.T) {
	r, _, _ := open(t)
	for _, callers := range []int{1, 4, 16} {
		ids := zzIDs(t, r, callers)
		begin, c := time.Now(), cpu()
		var wg sync.WaitGroup
		n := 2000
		for i := range callers {
			wg.Go(func() {
				for j := range n / callers {
					if err := zzAdd(context.Background(), r, ids[(i*31+j)%len(ids)]); err != nil { t.Error(err); return }
				}
			})
		}
		wg.Wait()
		fmt.Printf("callers %d: %v per change, cpu %v\n", callers, time.Since(begin)/time.Duration(n), (cpu()-c)/time.Duration(n))
	}
}

func zzIDs(t *testing.T, r replica, k int) (ids []int32) {
	for i := range 200 { ids = append(ids, int32(mustCreate(t, r, fmt.Sprint("zz ", k, " ", i+100), 1<<30))) }
	return ids
}
func zzAdd(ctx context.Context, r replica, id int32) error { _, err := r.Change(ctx, gold(pot.ID(id), 1)); return err }
