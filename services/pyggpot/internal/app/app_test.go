package app_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/postgres"
)

// The life of a pot, through every kind of client.
func TestLifeOfAPot(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	for i, way := range slices.Sorted(maps.Keys(callers(t, r))) {
		c := callers(t, r)[way]
		name := fmt.Sprintf("pot %d", i)
		var made, seen potpb.PotResponse
		if refused := c.call(t, &potpb.CreatePotRequest{PotName: name, MaxCoins: 100}, &made); refused != nil {
			t.Fatalf("%s: %+v", way, refused)
		}
		if made.GetPotId() < 1 || made.GetPotName() != name || made.GetMaxCoins() != 100 || made.GetCreateTime().AsTime().IsZero() {
			t.Errorf("%s: made %v", way, &made)
		}
		wantRefusal(t, way, c.call(t, &potpb.CreatePotRequest{PotName: name, MaxCoins: 7}, &seen), "already_exists", "POT_EXISTS", "pot_name")

		id := made.GetPotId()
		var list coin.CoinsListResponse
		step := func(request proto.Message, want ...int32) {
			t.Helper()
			list.Reset()
			if refused := c.call(t, request, &list); refused != nil {
				t.Errorf("%s: %v: %+v", way, request, refused)
			}
			wantMessage(t, way, &list, &coin.CoinsListResponse{Coins: kinds(want...)})
		}
		step(&coin.AddCoinsRequest{PotId: id, Coins: kinds(100, 10, 1, 60, 100, 10)}, 1, 60, 100, 20)
		wantRefusal(t, way, c.call(t, &coin.AddCoinsRequest{PotId: id, Coins: kinds(10, 21)}, &list), "failed_precondition", "POT_FULL", "coins")
		wantRefusal(t, way, c.call(t, &coin.AddCoinsRequest{PotId: id, Coins: kinds(10, math.MaxInt32, 10, math.MaxInt32)}, &list),
			"failed_precondition", "POT_FULL", "coins")
		step(&coin.RemoveCoinsRequest{PotId: id, Coins: kinds(100, 15, 100, 10, 10, 1)}, 100, 20)
		step(&coin.RemoveCoinsRequest{PotId: id, Count: 5}, 1, 5)
		step(&coin.RemoveCoinsRequest{PotId: id, Coins: kinds(1, 50), Count: 2}, 1, 52)
		step(&coin.RemoveCoinsRequest{PotId: id, Count: math.MaxInt32}, 1, 3)
		step(&coin.RemoveCoinsRequest{PotId: id, Coins: kinds(1, 1)})
		step(&coin.AddCoinsRequest{PotId: id, Coins: kinds(100, 1, 10, 99)}, 10, 99, 100, 1)

		want := proto.CloneOf(&made)
		want.Coins = kinds(10, 99, 100, 1)
		if refused := c.call(t, &potpb.ViewPotRequest{PotId: id}, &seen); refused != nil {
			t.Errorf("%s: %+v", way, refused)
		}
		wantMessage(t, way, &seen, want)
		seen.Reset()
		if refused := c.call(t, &potpb.ViewPotByNameRequest{PotName: name}, &seen); refused != nil {
			t.Errorf("%s: %+v", way, refused)
		}
		wantMessage(t, way, &seen, want)
		var page potpb.PotListResponse
		total := int32(i + 1)
		if refused := c.call(t, &potpb.ListPotsRequest{Page: total, Limit: 1}, &page); refused != nil {
			t.Errorf("%s: %+v", way, refused)
		}
		wantMessage(t, way, &page, &potpb.PotListResponse{
			TotalPotCount: total, Request: &potpb.ListPotsRequest{Page: total, Limit: 1}, Pots: []*potpb.PotResponse{want},
		})

		const nobody = math.MaxInt32
		for _, request := range []proto.Message{
			&potpb.ViewPotRequest{PotId: nobody}, &potpb.ViewPotByNameRequest{PotName: "Nobody"},
			&coin.AddCoinsRequest{PotId: nobody, Coins: kinds(1, 1)}, &coin.RemoveCoinsRequest{PotId: nobody, Count: 1},
		} {
			wantRefusal(t, way, c.call(t, request, &seen), "not_found", "POT_NOT_FOUND", "")
		}
	}
}

// Every rule of the contract, on both sides of its edge, and the field that it names.
func TestRules(t *testing.T) {
	t.Parallel()
	r := start(t, dbtest.Postgres(t, postgres.Migrations()), nil)
	ways := callers(t, r)
	var made potpb.PotResponse
	if refused := ways["gRPC"].call(t, &potpb.CreatePotRequest{PotName: "pot", MaxCoins: 6}, &made); refused != nil {
		t.Fatal(refused)
	}
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
		{"pot_name", &potpb.CreatePotRequest{PotName: "abc'; DROP", MaxCoins: 6}},
		{"pot_name", &potpb.CreatePotRequest{PotName: strings.Repeat("a", 256), MaxCoins: 6}},
		{"max_coins", &potpb.CreatePotRequest{PotName: "abc", MaxCoins: 5}},
		{"max_coins", &potpb.CreatePotRequest{PotName: "abc", MaxCoins: math.MinInt32}},
		{"pot_id", &potpb.ViewPotRequest{PotId: 0}},
		{"pot_id", &potpb.ViewPotRequest{PotId: -1}},
		{"pot_name", &potpb.ViewPotByNameRequest{PotName: "a"}},
		{"page", &potpb.ListPotsRequest{Page: 0, Limit: 1}},
		{"page", &potpb.ListPotsRequest{Page: -1, Limit: 1}},
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
		{"count", &coin.RemoveCoinsRequest{PotId: 1, Count: -1, Coins: kinds(1, 1)}},
		{"coins[0].count", &coin.RemoveCoinsRequest{PotId: 1, Count: 1, Coins: kinds(1, 0)}},
		{"coins[0].kind", &coin.RemoveCoinsRequest{PotId: 1, Coins: kinds(7, 1)}},
		{"coins", &coin.RemoveCoinsRequest{PotId: 1, Coins: many}},
	} {
		for way, c := range ways {
			wantRefusal(t, fmt.Sprintf("%s: %T %v", way, tt.request, tt.request), c.call(t, tt.request, new(potpb.PotResponse)),
				"invalid_argument", "INVALID_FIELD", tt.field)
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
		if refused := ways["gRPC"].call(t, request, new(emptyAnswer)); refused != nil {
			t.Errorf("%d, %T: %+v", i, request, refused)
		}
	}
}

// emptyAnswer takes any answer: every field is unknown to it.
type emptyAnswer = coin.Coins

// A pot that another replica holds: aborted, with a hint when to come back.
func TestLockedPot(t *testing.T) {
	t.Parallel()
	dsn := dbtest.Postgres(t, postgres.Migrations())
	r := start(t, dsn, map[string]string{"LOCK_RETRIES": "2", "LOCK_RETRY_WAIT": "1ms"})
	ways := callers(t, r)
	if refused := ways["JSON"].call(t, &potpb.CreatePotRequest{PotName: "pot", MaxCoins: 6}, new(potpb.PotResponse)); refused != nil {
		t.Fatal(refused)
	}
	db := apptest.Open(t, dsn)
	apptest.Execute(t, db, `UPDATE pyggpot.pot SET lock = gen_random_uuid(), lock_expire_time = clock_timestamp() + interval '1h'`)
	for way, c := range ways {
		refused := c.call(t, &coin.AddCoinsRequest{PotId: 1, Coins: kinds(1, 1)}, new(coin.CoinsListResponse))
		wantRefusal(t, way, refused, "aborted", "POT_LOCKED", "")
		if refused.retry <= 0 {
			t.Errorf("%s: no hint when to come back: %+v", way, refused)
		}
		if refused := c.call(t, &potpb.ViewPotRequest{PotId: 1}, new(potpb.PotResponse)); refused != nil {
			t.Errorf("%s: a look waits: %+v", way, refused)
		}
	}
	n := float64(len(ways))
	if held := r.Metric(t, `rowlock_lock_conflicts_total{lock="pot",reason="held"}`); held != 3*n {
		t.Errorf("%g changes found the pot held %g times, want three each", n, held)
	}
	// Of gRPC, whose status line is always 200, the log and the metrics have the true one.
	if got := r.Metric(t, `http_server_request_duration_seconds_count{method="POST",route="/pyggpot.coin.Coin/AddCoins",`+
		`server="api",status="409"}`); got != n-1 {
		t.Errorf("%g refusals are in the metrics, want %g", got, n-1)
	}
}
