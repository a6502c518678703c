package prove

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	api "github.com/rowlock/rowlock/client/iidy"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/hostile"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// attackIidy has an item that is locked, a list whose pages are as long as there are, and uploads of a normal client.
func attackIidy(ctx context.Context, v *victim, s site) error {
	client, err := api.New(s.url, targets.Once(s.client)...)
	if err != nil {
		return err
	}
	const path, text, item = "/iidy/v1/batch/lists/", "text/plain", "item"
	locked, large, crossed := s.prefix+"-locked", s.prefix+"-large", s.prefix+"-crossed"
	change, page := path+crossed, path+large+"?count=10000"
	v.Change, v.Begun = hostile.Post(change, text, "a\n", 0), hostile.Post(change, text, "a", missing)
	v.Upload = hostile.Post(change, text, "a", 1<<20)
	claim := hostile.Post(page+"&action=claim&lease=1s", text, "", 0)
	v.Large = append(slices.Repeat([]string{hostile.Get(page)}, 11), claim)
	v.Bad = []string{
		hostile.Post(path+"a%00b", text, "a\n", 0), hostile.Post(change, jsonType, `{"items":`, 0),
		hostile.Post(change, text, "a\x00b\n", 0), hostile.Get(change + "?count=10001"),
	}
	v.lock = func(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
		return hold(tx.ExecContext(ctx, `SELECT FROM iidy.lists WHERE list = $1 FOR UPDATE`, locked))
	}
	v.call = func(ctx context.Context) (int64, error) { return client.List(locked).Increment(ctx, item) }
	v.page = func(ctx context.Context) error {
		_, err := client.List(large).Page(ctx, "", 200)
		return err
	}
	const long = 3000 // more than 64 KiB of items
	items := make([]string, long)
	for i := range items {
		items[i] = fmt.Sprintf("an-item-of-some-length-%06d", i)
	}
	var lists atomic.Int64
	v.upload = func(ctx context.Context) error {
		added, err := client.List(fmt.Sprintf("%s-upload-%d", s.prefix, lists.Add(1))).Add(ctx, items...)
		if err == nil && added != long {
			err = badAnswer(fmt.Sprintf("%d of %d items were added", added, long))
		}
		return err
	}
	const of = ` FROM iidy.lists WHERE list = `
	v.stored, v.crossed = `SELECT attempts`+of+pq.QuoteLiteral(locked), `SELECT count(*)`+of+pq.QuoteLiteral(crossed)
	return local.Execute(ctx, s.db, fmt.Sprintf(`INSERT INTO iidy.lists (list, item)
		SELECT %s, %s UNION ALL SELECT %s, lpad(n::text, 1950, '0') FROM generate_series(1, 10000) n`,
		pq.QuoteLiteral(locked), pq.QuoteLiteral(item), pq.QuoteLiteral(large)))
}
