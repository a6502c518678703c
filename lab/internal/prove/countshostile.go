package prove

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	api "github.com/rowlock/rowlock/client/counts"
	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/hostile"
	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/targets"
)

// attackCounts has a counter that is locked and called for singly, by one key and in batches, and reads 500 counters at
// once.
func attackCounts(ctx context.Context, v *victim, s site) error {
	client, err := api.New(s.url, targets.Once(s.client)...)
	if err != nil {
		return err
	}
	const internal, path, most = "/api/v1/internal/counts", "/api/v1/counts/", 500
	ids := make([]string, most)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", s.prefix, i)
	}
	locked, crossed := ids[0], ids[1]
	change := path + crossed + "/increase"
	v.Change, v.Begun = hostile.Post(change, jsonType, `{"amount":1}`, 0), hostile.Post(change, jsonType, `{`, missing)
	v.Upload = hostile.Post(internal, jsonType, `{"itemId":"`, longBody)
	v.Large = []string{hostile.Get(internal + "?" + url.Values{"itemIds": ids}.Encode())}
	v.Bad = []string{
		hostile.Post(path+"a%00b/increase", jsonType, `{}`, 0), hostile.Post(change, jsonType, `{"amount":`, 0),
		hostile.Post(internal, jsonType, `{"itemId":"a\u0000b"}`, 0),
	}
	v.lock = func(ctx context.Context, tx *sqlx.Tx, hold fault.Hold) error {
		return lockCounter(ctx, tx, locked, hold)
	}
	normal := strings.TrimPrefix(s.prefix, hostilePrefix)
	var calls atomic.Int64
	v.call = func(ctx context.Context) (int64, error) {
		n := calls.Add(1)
		var replayed bool
		var err error
		switch n % 3 {
		case 0:
			_, err = client.Increase(ctx, locked, 1)
		case 1: // a crowd that repeats one key
			key := fmt.Sprintf("%s-%d", s.prefix, n/int64(v.Crowd))
			_, err = client.Increase(ctx, locked, 1, api.WithKey(key), api.ReportReplayed(&replayed))
		default: // a batch that wants a normal client's counter beside the locked one, and leaves it as it is
			free := fmt.Sprintf("%s-%04d", normal, 1+n%activeCounters)
			_, err = client.Apply(ctx, []api.Change{{ID: free, Amount: 1}, {ID: locked, Amount: 1}, {ID: free, Amount: -1}})
		}
		if replayed {
			return 0, err
		}
		return 1, err
	}
	const value = `SELECT current_value FROM counts.count_values WHERE item_id = `
	v.stored, v.crossed = value+pq.QuoteLiteral(locked), value+pq.QuoteLiteral(crossed)
	return local.Execute(ctx, s.db, `INSERT INTO counts.count_values (item_id)
		SELECT '`+s.prefix+`-' || n FROM generate_series(0, 499) n`)
}
