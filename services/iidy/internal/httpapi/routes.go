package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	httpserver "github.com/rowlock/rowlock/platform/httpold"
	"github.com/rowlock/rowlock/services/iidy/internal/attempt"
)

// router is what routes are put on; *httpserver.Server is one.
type router interface {
	Handle(method, pattern string, h httpserver.Handler)
}

// Options are the bounds of calls with long bodies.
type Options struct {
	BulkTimeout time.Duration // how long such a call may take
	BulkStall   time.Duration // how long its body may pause
}

// Lists is the inbound port, attempt.Service or a wrapper of it.
type Lists interface {
	Get(ctx context.Context, list attempt.List, item attempt.Item) (int64, error)
	Exists(ctx context.Context, list attempt.List) (bool, error)
	Page(ctx context.Context, list attempt.List, after string, count int) ([]attempt.Entry, error)
	Count(ctx context.Context, list attempt.List) (attempt.Counts, error)
	Apply(ctx context.Context, c attempt.Change, l attempt.List, item attempt.Item, claim attempt.Claim) (int64, error)
	ApplyBatch(ctx context.Context, c attempt.Change, l attempt.List, s attempt.Source, claim attempt.Claim) (int64, error)
	Abandon(ctx context.Context, list attempt.List, attempts int64, claim attempt.Claim) (int64, error)
	Claim(ctx context.Context, list attempt.List, count int, lease time.Duration) (attempt.Lease, error)
	Extend(ctx context.Context, list attempt.List, claim attempt.Claim, lease time.Duration) (int64, error)
	Release(ctx context.Context, list attempt.List, claim attempt.Claim) (int64, error)
}

const batchPath = "/iidy/v1/batch/lists/"

// Register adds the service's routes to r.
func Register(r router, port Lists, o Options) {
	h := handlers{port: port, options: o, uploads: make(chan struct{}, maxUploads)}
	const item, list = "/iidy/v1/lists/{list}/{item}", "/iidy/v1/lists/{list}"
	r.Handle(http.MethodPost, item, unsniffed(h.postItem))
	r.Handle(http.MethodGet, item, unsniffed(h.getItem))
	r.Handle(http.MethodDelete, item, unsniffed(h.deleteItem))
	r.Handle(http.MethodPost, "/iidy/v1/increment/lists/{list}/{item}", unsniffed(h.incrementItem))
	r.Handle(http.MethodGet, list, unsniffed(h.count))
	r.Handle(http.MethodHead, list, unsniffed(h.exists))
	r.Handle(http.MethodPost, batchPath+"{list}", unsniffed(h.postBatch))
	r.Handle(http.MethodGet, batchPath+"{list}", unsniffed(h.page))
	r.Handle(http.MethodDelete, batchPath+"{list}", unsniffed(h.deleteBatch))
	r.Handle(http.MethodPost, "/iidy/v1/increment/batch/lists/{list}", unsniffed(h.incrementBatch))
}

type handlers struct {
	port    Lists
	options Options
	uploads chan struct{} // holds an element for each patient call
}

// unsniffed keeps a browser from taking what others have named for a page.
func unsniffed(next httpserver.Handler) httpserver.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		return next(w, r)
	}
}

// listOf reads the path's list; a bad one is refused before anything is looked up.
func listOf(r *http.Request) (attempt.List, error) {
	raw, err := httpserver.PathParam(r, fieldList)
	if err != nil {
		return "", err
	}
	return attempt.List(raw), nil
}

// itemOf reads the path's list and item.
func itemOf(r *http.Request) (list attempt.List, item attempt.Item, err error) {
	if list, err = listOf(r); err != nil {
		return "", "", err
	}
	raw, err := httpserver.PathParam(r, fieldItem)
	if err != nil {
		return "", "", err
	}
	return list, attempt.Item(raw), nil
}

// pathSegment escapes a name as one segment of a path. A segment of dots alone
// means another place in a path, so its dots are escaped too.
func pathSegment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// queryValue escapes a value, a space as %20: a plus is read as a plus by some.
func queryValue(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
