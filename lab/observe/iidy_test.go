package observe

import (
	"net/http"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

var _ = register(subject{
	service: targets.Iidy,
	story: []step{
		{post("/iidy/v1/lists/"+marked+"/"+marked, ""), http.StatusCreated, `POST /iidy/v1/lists/{list}/{item}
  iidy.add
    batch iidy_add
      INSERT iidy.slots
      INSERT iidy.lists UPDATE iidy.slots
`},
		{batch(marked, "", `{"items":["a`+marked+`","b`+marked+`"]}`), http.StatusCreated, "iidy.add_batch"},
		{batch(marked, "action=claim&count=1&lease=60s", ""), http.StatusOK, "iidy.claim"},
		{batch(marked, "action=extend&lease=60s&claim="+unknown, ""), http.StatusOK, "iidy.extend"},
		{batch(marked, "action=release&claim="+unknown, ""), http.StatusOK, "iidy.release"},
		{batch(marked, "action=increment", "a"+marked), http.StatusOK, "iidy.increment_batch"},
		{post("/iidy/v1/lists/"+marked+"/"+marked+"?action=increment", ""), http.StatusOK, "iidy.increment"},
		{get("/iidy/v1/lists/" + marked + "/" + marked), http.StatusOK, "iidy.get"},
		{get("/iidy/v1/lists/" + marked), http.StatusOK, "iidy.progress"},
		{request{method: http.MethodHead, path: "/iidy/v1/lists/" + marked}, http.StatusOK, "iidy.exists"},
		{get(batches + marked + "?count=10"), http.StatusOK, "iidy.page"},
		{remove(batches+marked+"?min_attempts=5", ""), http.StatusOK, "iidy.abandon"},
		{remove(batches+marked, "a"+marked), http.StatusOK, "iidy.delete_batch"},
		{remove("/iidy/v1/lists/"+marked+"/"+marked, ""), http.StatusOK, "iidy.delete"},
		{get("/iidy/v1/lists/" + marked + "/x" + marked), http.StatusNotFound, ""},
		{get("/iidy/v1/batch/lists/" + marked + "?count=" + marked), http.StatusBadRequest, ""},
		{batch(marked, "", `{"items":["`+strings.Repeat(marked, 80)+`"]}`), http.StatusBadRequest, ""},
	},
	down: []request{post("/iidy/v1/lists/"+mark+"/"+mark, ""), batch(mark, "", `{"items":["`+mark+`"]}`)},
	last: "INSERT iidy.lists",
})

const batches = "/iidy/v1/batch/lists/"

// batch returns a POST of items to a list.
func batch(list, query, items string) request { return post(batches+list+"?"+query, items) }
