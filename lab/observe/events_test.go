package observe

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/services"
)

var _ = register(subject{
	service: services.Events,
	next:    eventsLoad, perSecond: 60,

	rows:   `SELECT FROM events.status FOR UPDATE`,
	faults: []fault{{[]string{"RowlockEventsNotWorked", "RowlockServiceDown"}, stallWorkers}},

	healthy: map[string]string{
		`rowlock_coalesce_batch_size_sum{coalescer="events_add"}`: "0+6000x100",
		"events_pending": "200x100", "events_oldest_pending_distance": "200x100", "events_worked_total": "0+3000x100",
	},
	idle: map[string]string{
		`rowlock_coalesce_batch_size_sum{coalescer="events_add"}`: "0x100",
		"events_pending": "0x100", "events_oldest_pending_distance": "0x100", "events_worked_total": "0x100",
	},

	story: []step{
		{post("/events", ""), http.StatusCreated, `POST /events
  events.create
    batch events_add
      INSERT events_meta.slots
      UPDATE events.status INSERT events.events UPDATE events_meta.slots
`},
		{post("/events/async", marked), http.StatusAccepted, "events.enqueue"},
		{get("/events/1"), http.StatusOK, "events.get"},
		{get("/events"), http.StatusOK, "events.count"},
		{get("/events/" + marked), http.StatusBadRequest, ""},
		{get("/events/9000000000000000000"), http.StatusNotFound, ""},
	},
	down:  []request{post("/events", "")},
	chain: []string{"SELECT events.events", "events.get", "GET /events/{id}", "GET", "check events"},
	work: `events.work
  BEGIN
  SELECT events.events
  DELETE events.events INSERT events.events
  COMMIT
`,
	worry: "a batch of events was not worked",
})

// eventsLoad returns requests that add events, now and later, and that read some.
func eventsLoad(n int) request {
	switch n % 10 {
	case 3:
		return get("/events")
	case 6:
		return get(fmt.Sprintf("/events/%d", max(1, n/2)))
	case 1, 5, 9:
		return post("/events", "")
	}
	return post("/events/async", "")
}

// stallWorkers: as when their node is paused. Events pend; then the row is locked that adding one needs, and those that
// are there stay.
func stallWorkers(t *testing.T, r *rig) {
	t.Helper()
	for _, f := range r.fleets {
		if f.service != services.Events || f.component == "serve" {
			continue
		}
		for _, one := range f.set.Replicas() {
			if err := one.Pause(); err != nil {
				t.Error(err)
			}
		}
	}
	eventually(t, "events pend", fireWithin, func() (pending bool) {
		err := r.other.GetContext(t.Context(), &pending, `SELECT count(*) > 9 FROM events.events WHERE value IS NULL`)
		return err == nil && pending
	})
}
