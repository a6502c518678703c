package targets

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"github.com/lib/pq"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/pot"
)

// Pyggpot names the service.
const Pyggpot = "pyggpot"

var _ = register(Service{
	Name: Pyggpot, Image: "rowlock/pyggpot", Port: 8081, Engines: []string{PostgreSQL},
	Try: `curl -s -o /dev/null -H 'Content-Type: application/json' -d '{"pot_name":"Piggy","max_coins":1000}'` +
		` URL/pyggpot.pot.Pot/CreatePot; curl -s -H 'Content-Type: application/json'` +
		` -d '{"pot_id":1,"coins":[{"kind":"GOLD","count":1}]}' URL/pyggpot.coin.Coin/AddCoins`,
	Asks: []string{
		`--header 'Content-Type: application/json' --data '{"page":1}' URL/pyggpot.pot.Pot/ListPots`,
		`--http2-prior-knowledge --header 'Content-Type: application/grpc' --header 'TE: trailers'` +
			` --data-binary @- URL/pyggpot.pot.Pot/ListPots`,
	},
	TryPrints: []string{`{"coins":[{"kind":"GOLD","count":1}]}`, `{"coins":[{"kind":"GOLD","count":1}]}`},
}, openPyggpot)

// saving puts coins into pots.
type saving struct {
	api *pyggpot.Client
	ids []int32
}

func openPyggpot(t Target, options []rowlock.Option) (*saving, error) {
	return &saving{api: pyggpot.New(t.URL, options...)}, nil
}

func (w *saving) create(ctx context.Context, name string) (id int32, err error) {
	const size = 1 << 30
	r, err := w.api.Pot.CreatePot(ctx, connect.NewRequest(&pot.CreatePotRequest{PotName: name, MaxCoins: size}))
	if err != nil {
		return 0, err
	}
	return r.Msg.GetPotId(), nil
}

// tries is how often a change is repeated while other changes hold the pot's lease.
const tries = 10

func change[Q, A any](
	ctx context.Context, procedure func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), request *Q,
) (*A, error) {
	for try := 1; ; try++ {
		r, err := procedure(ctx, connect.NewRequest(request))
		if err == nil {
			return r.Msg, nil
		}
		if !errors.Is(err, pyggpot.ErrPotLocked) || try == tries {
			return nil, err
		}
	}
}

// add puts n gold coins into a pot and returns the number that was added.
func (w *saving) add(ctx context.Context, id, n int32) (int32, error) {
	a, err := change(ctx, w.api.Coin.AddCoins,
		&coin.AddCoinsRequest{PotId: id, Coins: []*coin.Coins{{Kind: coin.Coins_GOLD, Count: n}}})
	return sum(a.GetCoins()), err
}

func (w *saving) view(ctx context.Context, id int32) (int32, error) {
	r, err := w.api.Pot.ViewPot(ctx, connect.NewRequest(&pot.ViewPotRequest{PotId: id}))
	if err != nil {
		return 0, err
	}
	return sum(r.Msg.GetCoins()), nil
}

func sum(coins []*coin.Coins) (n int32) {
	for _, c := range coins {
		n += c.GetCount()
	}
	return n
}

// hands put coins into a pot and take some out at the same time.
const (
	hands    = 20
	coinsIn  = 10
	coinsOut = 3
)

func (w *saving) check(ctx context.Context) (string, error) {
	id, err := w.create(ctx, "check"+rand.Text())
	if err != nil {
		return "", err
	}
	err = together(hands, func(int) error {
		if in, err := w.add(ctx, id, coinsIn); err != nil || in != coinsIn {
			return errors.Join(fmt.Errorf("adding %d coins added %d", coinsIn, in), err)
		}
		out, err := change(ctx, w.api.Coin.RemoveCoins, &coin.RemoveCoinsRequest{PotId: id, Count: coinsOut})
		if n := sum(out.GetCoins()); err != nil || n != coinsOut {
			return errors.Join(fmt.Errorf("taking %d coins out of a full pot took %d", coinsOut, n), err)
		}
		return nil
	})
	if err != nil {
		return "", err
	}

	const in, out = hands * coinsIn, hands * coinsOut
	if left, err := w.view(ctx, id); err != nil || left != in-out {
		return "", errors.Join(fmt.Errorf("%d coins went in, %d came out, and %d are left", in, out, left), err)
	}
	return fmt.Sprintf("%d hands at once in one pot: %d coins in, %d out, %d left", hands, in, out, in-out), nil
}

// pots is over how many the coins of a load are spread.
const pots = 10

func (w *saving) prepare(ctx context.Context) error {
	for range pots {
		id, err := retry(ctx, func(ctx context.Context) (int32, error) { return w.create(ctx, "drive"+rand.Text()) })
		if err != nil {
			return err
		}
		w.ids = append(w.ids, id)
	}
	return nil
}

func (w *saving) operate(ctx context.Context, n int) error {
	_, err := w.add(ctx, w.ids[n%pots], 1)
	return err
}

func (w *saving) stored(ctx context.Context) (coins int, err error) {
	for _, id := range w.ids {
		n, err := retry(ctx, func(ctx context.Context) (int32, error) { return w.view(ctx, id) })
		if err != nil {
			return 0, err
		}
		coins += int(n)
	}
	return coins, nil
}

func (w *saving) rows() Rows {
	return Rows{
		Stored: `SELECT coalesce(sum(coin_count), 0) FROM pyggpot.coin WHERE pot_id = ANY($1)`,
		Lock:   `SELECT FROM pyggpot.pot WHERE id = ANY($1) ORDER BY id LIMIT 1 FOR UPDATE`,
		Args:   []any{pq.Array(w.ids)},
	}
}
