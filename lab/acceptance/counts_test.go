package acceptance

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// forgetful loses every other answer: the service has applied the change, and its caller does not know.
type forgetful struct {
	next     http.RoundTripper
	answered atomic.Int64
}

func (f *forgetful) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := f.next.RoundTrip(req)
	if err != nil || f.answered.Add(1)%2 == 0 {
		return resp, err
	}
	return nil, errors.Join(io.ErrUnexpectedEOF, resp.Body.Close())
}

// A change that the client repeats is counted once.
func TestCountsLostAnswers(t *testing.T) {
	t.Parallel()
	const callers, changes = 20, 5
	dsn := dbtest.Empty(t)
	transport := &forgetful{next: &http.Transport{}}
	var clients []*counts.Client
	for range 2 {
		c, err := counts.New(url(start(t, "counts", dsn, nil)), rowlock.WithHTTPClient(&http.Client{Transport: transport}))
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}

	ctx := t.Context()
	if _, err := clients[0].Apply(ctx, []counts.Change{{ID: "x", Amount: 1}}, counts.CreateMissing()); err != nil {
		t.Fatal(err)
	}

	waittest.Together(t, callers, func(i int) error {
		for range changes {
			if _, err := clients[i%2].Increase(ctx, "x", 1); err != nil {
				return err
			}
		}
		return nil
	})

	found, err := clients[0].Get(ctx, "x")
	if err != nil || found.Value != 1+callers*changes {
		t.Errorf("%d changes were counted as %d, %v", 1+callers*changes, found.Value, err)
	}
	if sent := transport.answered.Load(); sent < 2*callers*changes {
		t.Errorf("%d requests were answered: no answer was lost", sent)
	}
}
