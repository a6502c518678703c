package app_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// TestLifeOfAPot runs the life of a pot by every protocol. The domain's tests have the cases of its rules.
func TestLifeOfAPot(t *testing.T) {
	t.Parallel()
	r, _ := start(t, nil)
	for way, c := range callers(t, r) {
		var made, seen potpb.PotResponse
		call := func(request, answer proto.Message) {
			t.Helper()
			if refused := c.call(t, request, answer); refused != nil {
				t.Errorf("%s: %v: %+v", way, request, refused)
			}
		}
		call(&potpb.CreatePotRequest{PotName: strings.NewReplacer("/", "", "-", "").Replace(way), MaxCoins: 100}, &made)
		if made.GetPotId() < 1 || made.GetMaxCoins() != 100 || made.GetCreateTime().AsTime().IsZero() {
			t.Errorf("%s: created %v", way, &made)
		}
		again := c.call(t, &potpb.CreatePotRequest{PotName: made.GetPotName(), MaxCoins: 7}, &seen)
		wantRefusal(t, way, again, "already_exists", "POT_EXISTS", "pot_name")

		id := made.GetPotId()
		var list coin.CoinsListResponse
		call(&coin.AddCoinsRequest{PotId: id, Coins: kinds(100, 10, 1, 60, 100, 10)}, &list)
		wantMessage(t, way, &list, &coin.CoinsListResponse{Coins: kinds(1, 60, 100, 20)})
		full := c.call(t, &coin.AddCoinsRequest{PotId: id, Coins: kinds(10, math.MaxInt32, 10, math.MaxInt32)}, &list)
		wantRefusal(t, way, full, "failed_precondition", "POT_FULL", "coins")
		list.Reset()
		call(&coin.RemoveCoinsRequest{PotId: id, Coins: kinds(100, 15, 100, 10, 10, 1), Count: 5}, &list)
		wantMessage(t, way, &list, &coin.CoinsListResponse{Coins: kinds(1, 5, 100, 20)})

		want := proto.CloneOf(&made)
		want.Coins = kinds(1, 55)
		call(&potpb.ViewPotRequest{PotId: id}, &seen)
		wantMessage(t, way, &seen, want)
		seen.Reset()
		call(&potpb.ViewPotByNameRequest{PotName: made.GetPotName()}, &seen)
		wantMessage(t, way, &seen, want)
		var page potpb.PotListResponse
		call(&potpb.ListPotsRequest{Page: id, Limit: 1}, &page) // ids are 1, 2, 3: a page each
		wantMessage(t, way, &page, &potpb.PotListResponse{
			TotalPotCount: id, Request: &potpb.ListPotsRequest{Page: id, Limit: 1}, Pots: []*potpb.PotResponse{want},
		})

		const none = math.MaxInt32
		for _, request := range []proto.Message{
			&potpb.ViewPotRequest{PotId: none}, &potpb.ViewPotByNameRequest{PotName: "No such pot"},
			&coin.AddCoinsRequest{PotId: none, Coins: kinds(1, 1)}, &coin.RemoveCoinsRequest{PotId: none, Count: 1},
		} {
			wantRefusal(t, way, c.call(t, request, &seen), "not_found", "POT_NOT_FOUND", "")
		}
	}
}

// TestRules: every rule of the contract refuses what breaks it, and names the field.
func TestRules(t *testing.T) {
	t.Parallel()
	r, _ := start(t, nil)
	ways := callers(t, r)
	many := slices.Repeat(kinds(1, 1), 101)
	for _, tt := range []struct {
		field   string
		request proto.Message
	}{
		{"pot_name", &potpb.CreatePotRequest{PotName: "", MaxCoins: 6}},
		{"pot_name", &potpb.CreatePotRequest{PotName: "ab", MaxCoins: 6}},
		{"pot_name", &potpb.CreatePotRequest{PotName: "a b", MaxCoins: 6}},
		{"pot_name", &potpb.CreatePotRequest{PotName: "ab  c", MaxCoins: 6}},
		{"pot_name", &potpb.CreatePotRequest{PotName: "abc ", MaxCoins: 6}},
		{"pot_name", &potpb.CreatePotRequest{PotName: " abc", MaxCoins: 6}},
		{"pot_name", &potpb.CreatePotRequest{PotName: "abc\n", MaxCoins: 6}},
		{"pot_name", &potpb.CreatePotRequest{PotName: "abé", MaxCoins: 6}},
		{"pot_name", &potpb.CreatePotRequest{PotName: strings.Repeat("a", 256), MaxCoins: 6}},
		{"max_coins", &potpb.CreatePotRequest{PotName: "abc", MaxCoins: 5}},
		{"pot_id", &potpb.ViewPotRequest{PotId: 0}},
		{"pot_name", &potpb.ViewPotByNameRequest{PotName: "a"}},
		{"page", &potpb.ListPotsRequest{Page: 0, Limit: 1}},
		{"limit", &potpb.ListPotsRequest{Page: 1, Limit: 101}},
		{"limit", &potpb.ListPotsRequest{Page: 1, Limit: -1}},
		{"pot_id", &coin.AddCoinsRequest{PotId: 0, Coins: kinds(1, 1)}},
		{"coins", &coin.AddCoinsRequest{PotId: 1}},
		{"coins", &coin.AddCoinsRequest{PotId: 1, Coins: many}},
		{"coins[0].count", &coin.AddCoinsRequest{PotId: 1, Coins: kinds(1, 0)}},
		{"coins[1].count", &coin.AddCoinsRequest{PotId: 1, Coins: kinds(1, 1, 1, -1)}},
		{"coins[0].kind", &coin.AddCoinsRequest{PotId: 1, Coins: kinds(0, 1)}},
		{"coins[1].kind", &coin.AddCoinsRequest{PotId: 1, Coins: kinds(1, 1, 5, 1)}},
		{"pot_id", &coin.RemoveCoinsRequest{PotId: -1, Count: 1}},
		{"count", &coin.RemoveCoinsRequest{PotId: 1}},
		{"count", &coin.RemoveCoinsRequest{PotId: 1, Count: -1}},
		{"coins[0].count", &coin.RemoveCoinsRequest{PotId: 1, Count: 1, Coins: kinds(1, 0)}},
		{"coins", &coin.RemoveCoinsRequest{PotId: 1, Coins: many}},
	} {
		for way, c := range ways {
			refused := c.call(t, tt.request, nil)
			wantRefusal(t, fmt.Sprintf("%s: %v", way, tt.request), refused, "invalid_argument", "INVALID_FIELD", tt.field)
		}
	}
	for i, request := range []proto.Message{
		&potpb.CreatePotRequest{PotName: "abc", MaxCoins: 6},
		&potpb.CreatePotRequest{PotName: "ab c_d-e", MaxCoins: math.MaxInt32},
		&potpb.CreatePotRequest{PotName: strings.Repeat("a", 255), MaxCoins: 6},
		&potpb.ListPotsRequest{Page: math.MaxInt32, Limit: 100},
		&potpb.ListPotsRequest{Page: 1},
		&coin.AddCoinsRequest{PotId: 1, Coins: kinds(1, 1, 10, 1, 100, 1)},
		&coin.RemoveCoinsRequest{PotId: 1, Coins: many[:100]},
		&coin.RemoveCoinsRequest{PotId: 1, Coins: kinds(1, math.MaxInt32), Count: math.MaxInt32},
	} {
		if refused := ways["binary"].call(t, request, nil); refused != nil {
			t.Errorf("%d, %T: %+v", i, request, refused)
		}
	}
}

// TestLockedPot: the change of a pot that another replica holds is aborted, with the time of the next try; reads are
// not.
func TestLockedPot(t *testing.T) {
	t.Parallel()
	r, dsn := start(t, map[string]string{"LOCK_RETRIES": "2", "LOCK_RETRY_WAIT": "1ms"})
	ways := callers(t, r)
	apptest.Execute(t, dbtest.Dial(t, dsn), `INSERT INTO pyggpot.pot (pot_name, max_coins, lock, lock_expire_time)
		VALUES ('pot', 6, gen_random_uuid(), clock_timestamp() + interval '1h')`)
	for way, c := range ways {
		refused := c.call(t, &coin.AddCoinsRequest{PotId: 1, Coins: kinds(1, 1)}, new(coin.CoinsListResponse))
		wantRefusal(t, way, refused, "aborted", "POT_LOCKED", "")
		if refused.retry <= 0 {
			t.Errorf("%s: no time of the next try: %+v", way, refused)
		}
		if refused := c.call(t, &potpb.ViewPotRequest{PotId: 1}, new(potpb.PotResponse)); refused != nil {
			t.Errorf("%s: a read waits: %+v", way, refused)
		}
	}
	// The status line of gRPC is always 200; the metrics have the status of JSON. /twirp is another route.
	if got := r.Metric(t, `http_server_request_duration_seconds_count{method="POST",route="/pyggpot.coin.Coin/AddCoins",`+
		`server="api",status="409"}`); got != float64(len(ways)-2) {
		t.Errorf("%g refusals are in the metrics, want %d", got, len(ways)-2)
	}
}
