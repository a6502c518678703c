package local

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestStartListsEveryReplicaAtAnAddressOfItsOwn(t *testing.T) {
	t.Parallel()
	set := start(t, spec(t, "serve"), 3)

	list := set.Backends()
	if len(list) != 3 {
		t.Fatalf("backends %v, want 3", list)
	}
	seen := map[string]bool{}
	for i, b := range list {
		if want := fmt.Sprintf("fake-%d", i+1); b.Name != want {
			t.Errorf("name %q, want %q", b.Name, want)
		}
		pid, err := get(t, http.MethodGet, "http://"+b.Addr+"/pid", "")
		if err != nil {
			t.Fatal(err)
		}
		if st := set.Replicas()[i].Status(); pid != strconv.Itoa(st.PID) || !st.Ready || st.Starts != 1 || st.Admin == "" {
			t.Errorf("%s answered as process %s, status %+v", b.Name, pid, st)
		}
		seen[pid] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d processes answered, want 3", len(seen))
	}
}

func TestReadinessDecidesWhoIsListed(t *testing.T) {
	t.Parallel()
	set := start(t, spec(t, "serve"), 2)
	admin := "http://" + set.Replicas()[0].Status().Admin

	if _, err := get(t, http.MethodPost, admin+"/set?ready=false", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the one that says no is unlisted", func() bool {
		b := set.Backends()
		return len(b) == 1 && b[0].Name == "fake-2"
	})
	if _, err := get(t, http.MethodPost, admin+"/set?ready=true", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is listed again", func() bool { return len(set.Backends()) == 2 })
	if st := set.Replicas()[0].Status(); st.Starts != 1 {
		t.Errorf("it was started %d times, want 1: readiness kills nobody", st.Starts)
	}
	if flips := set.Replicas()[0].Status().Flips + 10*set.Replicas()[1].Status().Flips; flips != 1 {
		t.Errorf("flips %d, want 1 of the first and none of the second", flips)
	}
}

func TestAPausedReplicaLeavesAndReturns(t *testing.T) {
	t.Parallel()
	set := start(t, spec(t, "serve"), 2)
	if err := set.Replicas()[0].Pause(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stalled one is unlisted", func() bool { return len(set.Backends()) == 1 })
	if err := set.Replicas()[0].Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is listed again", func() bool { return len(set.Backends()) == 2 })
}

func TestStartFailsWithTheReason(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, part, path, want string
		cancelled              bool
	}{
		{name: "the service refuses", part: "refuses", want: "ended before it was ready: exit status 1 (fake: DATABASE_URL is required)"},
		{name: "it never listens", part: "silent", want: "was not ready within 100ms: it has not said where it listens"},
		{name: "no such binary", part: "serve", path: "/nonexistent/counts", want: "/nonexistent/counts"},
		{name: "called off", part: "silent", cancelled: true, want: "context canceled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := spec(t, tt.part)
			if tt.path != "" {
				s.Path = tt.path
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.part == "silent" {
				s.StartTimeout = 100 * time.Millisecond
			}
			if tt.cancelled {
				s.StartTimeout = time.Hour
				cancel()
			}
			set, err := Start(ctx, s, 2)
			if err == nil {
				t.Fatalf("it started: %v", set.Backends())
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want it to contain %q", err, tt.want)
			}
		})
	}
	if _, err := Start(t.Context(), spec(t, "serve"), 0); err == nil {
		t.Error("0 replicas were started")
	}
}

// A worker serves no API: its probes alone are waited for.
func TestAProcessWithoutAnAPI(t *testing.T) {
	t.Parallel()
	spec, err := fakeSpec("worker")
	if err != nil {
		t.Fatal(err)
	}
	spec.NoAPI, spec.Args = true, []string{"work"}
	set, err := Start(t.Context(), spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	if st := set.Replicas()[0].Status(); !st.Ready || st.Admin == "" || st.API != "" {
		t.Errorf("%+v", st)
	}
	if err := set.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
