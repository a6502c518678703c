package observe

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
)

var _ = register(subject{
	service: targets.Iidy,
	next:    iidyLoad(), perSecond: 60,

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

// lines returns n items of a batch.
func lines(from, n int) string {
	var text strings.Builder
	for i := range n {
		_, _ = fmt.Fprintf(&text, "file-%d-%02d\n", from, i)
	}
	return text.String()
}

// iidyLoad returns a function that makes requests for single items and batches, and of workers that claim and finish.
func iidyLoad() func(n int) request {
	var last atomic.Pointer[string] // the last claim
	keep := func(a apptest.Answer) {
		if claim := a.Header.Get("X-Iidy-Claim"); claim != "" {
			last.Store(&claim)
		}
	}
	return func(n int) request {
		item := fmt.Sprintf("/iidy/v1/lists/files/item-%d", n-n%10)
		switch n % 10 {
		case 1:
			return get(item)
		case 2:
			return post(item+"?action=increment", "")
		case 3:
			return remove(item, "")
		case 4:
			return batch("files", "", lines(n, 40))
		case 5:
			claim := batch("files", "action=claim&count=30&lease=1h", "")
			claim.then = keep
			return claim
		case 0:
			return post(item, "")
		}

		held := last.Load()
		switch {
		case n%50 == 9:
			return remove(batches+"files?min_attempts=5", "")
		case held == nil:
		case n%10 == 6:
			return batch("files", "action=extend&lease=1h&claim="+*held, "")
		case n%10 == 7:
			return batch("files", "action=increment&claim="+*held, lines(n-3, 5))
		case n%10 == 8:
			return remove(batches+"files?claim="+*held, lines(n-4, 40))
		case n%50 == 19:
			return batch("files", "action=release&claim="+*held, "")
		}
		return get(batches + "files?count=10")
	}
}
