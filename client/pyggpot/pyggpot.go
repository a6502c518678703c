// Package pyggpot calls the pyggpot service: pots of coins. It uses the clients that
// Connect generates, with the options and errors of package rowlock. The messages
// are in the subpackages pot and coin.
package pyggpot

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/call"
	"github.com/rowlock/rowlock/client/internal/settings"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
)

// Codes of the service.
const (
	ErrPotNotFound rowlock.Code = "POT_NOT_FOUND"
	ErrPotExists   rowlock.Code = "POT_EXISTS"
	ErrPotFull     rowlock.Code = "POT_FULL"
	ErrPotLocked   rowlock.Code = "POT_LOCKED"
)

// Client calls one pyggpot service. It is safe for concurrent use. Its errors are of
// type *rowlock.Error; errors.As also finds the *connect.Error behind one.
type Client struct {
	// Pot creates and reads pots.
	Pot potconnect.PotClient
	// Coin puts coins into a pot and takes them out.
	Coin coinconnect.CoinClient
}

// New returns a client of the service at baseURL, such as
// "http://rowlock-pyggpot". It sends nothing yet.
func New(baseURL string, options ...rowlock.Option) *Client {
	s := call.Settings(options)
	baseURL = strings.TrimSuffix(baseURL, "/")
	return &Client{
		Pot:  potconnect.NewPotClient(s.HTTP, baseURL, repeated(s)),
		Coin: coinconnect.NewCoinClient(s.HTTP, baseURL, repeated(s)),
	}
}

// repeated returns the option that repeats calls and maps their errors.
func repeated(s settings.Settings) connect.ClientOption {
	repeat := func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
			name := http.MethodPost + " " + req.Spec().Procedure
			return call.Repeat(ctx, s, name, false, func() (connect.AnyResponse, error) {
				resp, err := next(ctx, req)
				if err != nil {
					return nil, mapError(err, reads(req.Spec().Procedure))
				}
				return resp, nil
			})
		}
	}
	return connect.WithInterceptors(connect.UnaryInterceptorFunc(repeat))
}

// reads reports whether a procedure changes nothing.
func reads(procedure string) bool {
	switch procedure {
	case potconnect.PotViewPotProcedure, potconnect.PotViewPotByNameProcedure, potconnect.PotListPotsProcedure:
		return true
	}
	return false
}

// mapError reads the details of an error that the service sent. Any other error
// comes from the client or the network between.
func mapError(err error, read bool) *rowlock.Error {
	sent, ok := errors.AsType[*connect.Error](err)
	if !ok || !connect.IsWireError(err) {
		return call.Lost(err, read)
	}

	e := &rowlock.Error{Code: rowlock.ErrBadAnswer, Detail: sent.Message(), Read: read, Err: err}
	for _, detail := range sent.Details() {
		value, err := detail.Value()
		if err != nil {
			continue // this module does not have the detail's type
		}

		switch d := value.(type) {
		case *errdetails.ErrorInfo:
			e.Code, e.TraceID = rowlock.Code(d.GetReason()), d.GetMetadata()["trace_id"]
			e.Repeat = e.Code == ErrPotLocked
		case *errdetails.BadRequest:
			if fields := d.GetFieldViolations(); len(fields) > 0 {
				e.Field = fields[0].GetField()
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		}
	}

	return e
}
