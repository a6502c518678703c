package observe

import (
	"net/http"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

var _ = register(subject{
	service: targets.Events,
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
	down: []request{post("/events", "")},
	last: "SELECT events.events",
	work: `events.work
  BEGIN
  SELECT events.events
  DELETE events.events INSERT events.events
  COMMIT
`,
})
