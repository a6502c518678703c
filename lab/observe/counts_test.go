package observe

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

var _ = register(subject{
	service: targets.Counts,
	story: []step{
		{newCounter(marked, 5), http.StatusCreated, "counts.initialize"},
		{increase(marked, ""), http.StatusOK, `POST /api/v1/counts/{itemId}/increase
  counts.increase
    batch counts_add
      UPDATE counts.count_values UPDATE counts.slots
`},
		{get("/api/v1/internal/counts?itemIds=" + marked), http.StatusOK, "counts.get_many"},
		{newCounter(marked, 5), http.StatusConflict, ""},
		{increase("x"+marked, ""), http.StatusNotFound, "counts.increase"},
		// The operation begins before the request is decoded.
		{increase(marked, `{"amount":"`+marked+`"}`), http.StatusBadRequest, "counts.increase"},
		{increase(marked, `{"`+marked), http.StatusBadRequest, ""},
		{get("/" + marked + "?" + marked + "=" + marked).with(map[string]string{
			"User-Agent": marked, "X-Forwarded-For": marked, "X-Request-Id": marked, "Referer": marked, "Baggage": marked,
		}), http.StatusNotFound, "GET\n"},
		{request{method: "PROPFIND" + mark, path: "/api/v1/internal/counts"}, http.StatusMethodNotAllowed, "HTTP\n"},
		{withKey("k"+mark, increase(marked, "")), http.StatusOK, `POST /api/v1/counts/{itemId}/increase
  counts.increase
    batch counts_change
      BEGIN
      SELECT counts.count_values
      SELECT counts.idempotency_keys
      UPDATE counts.count_values UPDATE counts.slots
      COMMIT
`},
		{withKey("k"+mark, increase(marked, "")), http.StatusOK, "counts.increase"},
		{withKey("k"+mark, increase(marked, `{"amount":2}`)), http.StatusConflict, ""},
		{withKey(strings.Repeat(mark, 30), increase(marked, "")), http.StatusBadRequest, ""},
		{batchOf(marked, marked), http.StatusOK, "counts.apply"},
		{batchOf("x" + marked), http.StatusNotFound, ""},
		{post("/api/v1/counts/"+marked+"/decrease", ""), http.StatusOK, "counts.decrease"},
		{post("/api/v1/counts/"+marked+"/reset", ""), http.StatusOK, "counts.reset"},
		{put("/api/v1/internal/counts/"+marked, `{"value":7}`), http.StatusOK, "counts.set"},
		{get("/api/v1/internal/counts/" + marked), http.StatusOK, "counts.get"},
		{remove("/api/v1/internal/counts/"+marked, ""), http.StatusNoContent, "counts.delete"},
	},
	down: []request{increase(mark, ""), get("/api/v1/internal/counts/" + mark)},
	last: "UPDATE counts.count_values UPDATE counts.slots",
})

func newCounter(item string, value int) request {
	return post("/api/v1/internal/counts", fmt.Sprintf(`{"itemId":%q,"initialValue":%d}`, item, value))
}

func increase(item, body string) request { return post("/api/v1/counts/"+item+"/increase", body) }

// withKey returns the request with an Idempotency-Key.
func withKey(key string, q request) request { return q.with(map[string]string{"Idempotency-Key": key}) }

// batchOf returns a request that increases each item.
func batchOf(items ...string) request {
	changes := make([]string, len(items))
	for i, item := range items {
		changes[i] = fmt.Sprintf(`{"itemId":%q,"amount":1}`, item)
	}
	return post("/api/v1/counts", `{"changes":[`+strings.Join(changes, ",")+`]}`)
}
