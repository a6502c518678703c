package app_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/twitchtv/twirp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/app"
	"github.com/rowlock/rowlock/services/pyggpot/internal/postgres"
	twirpcoin "github.com/rowlock/rowlock/services/pyggpot/internal/twirptest/coin"
	twirppot "github.com/rowlock/rowlock/services/pyggpot/internal/twirptest/pot"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// replica is a running replica.
type replica struct{ *apptest.Replica }

// start runs a replica on a new database until the test ends. It returns the database's URL as well.
func start(t *testing.T, environ map[string]string) (r *replica, dsn string) {
	t.Helper()
	dsn = dbtest.Postgres(t, postgres.Migrations())
	return &replica{apptest.Run(t, app.Service(), dsn, map[string]string{"LOG_REQUESTS": "all"}, environ)}, dsn
}

// refusal holds the error that a client got.
type refusal struct {
	code   string // Connect's or Twirp's
	reason string // google.rpc.ErrorInfo
	field  string // google.rpc.BadRequest, the first
	retry  time.Duration
}

// caller calls procedures by a generated client.
type caller interface {
	call(t *testing.T, request, answer proto.Message) *refusal
}

// connectCaller calls by Connect's clients.
type connectCaller struct {
	pots  potconnect.PotClient
	coins coinconnect.CoinClient
}

func newCaller(t *testing.T, base string, transport *http.Transport, options ...connect.ClientOption) caller {
	t.Helper()
	client := newClient(t, transport)
	return connectCaller{
		potconnect.NewPotClient(client, base, options...), coinconnect.NewCoinClient(client, base, options...),
	}
}

func newClient(t *testing.T, transport *http.Transport) *http.Client {
	t.Helper()
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

// h2c returns a transport that speaks only HTTP/2.
func h2c() *http.Transport {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	return tr
}

func (c connectCaller) call(t *testing.T, request, answer proto.Message) *refusal {
	t.Helper()
	var got proto.Message
	var err error
	switch r := request.(type) {
	case *potpb.CreatePotRequest:
		got, err = message(c.pots.CreatePot(t.Context(), connect.NewRequest(r)))
	case *potpb.ViewPotRequest:
		got, err = message(c.pots.ViewPot(t.Context(), connect.NewRequest(r)))
	case *potpb.ViewPotByNameRequest:
		got, err = message(c.pots.ViewPotByName(t.Context(), connect.NewRequest(r)))
	case *potpb.ListPotsRequest:
		got, err = message(c.pots.ListPots(t.Context(), connect.NewRequest(r)))
	case *coin.AddCoinsRequest:
		got, err = message(c.coins.AddCoins(t.Context(), connect.NewRequest(r)))
	case *coin.RemoveCoinsRequest:
		got, err = message(c.coins.RemoveCoins(t.Context(), connect.NewRequest(r)))
	}
	if err == nil {
		if answer != nil {
			proto.Merge(answer, got)
		}
		return nil
	}
	refused := &refusal{code: connect.CodeOf(err).String()}
	known, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return refused
	}
	for _, d := range known.Details() {
		value, err := d.Value()
		if err != nil {
			t.Error(err)
		}
		switch d := value.(type) {
		case *errdetails.ErrorInfo:
			refused.reason = d.GetReason()
		case *errdetails.BadRequest:
			refused.field = d.GetFieldViolations()[0].GetField()
		case *errdetails.RetryInfo:
			refused.retry = d.GetRetryDelay().AsDuration()
		}
	}
	return refused
}

func message[T any](r *connect.Response[T], err error) (proto.Message, error) {
	if err != nil {
		return nil, err
	}
	return r.Any().(proto.Message), nil //nolint:errcheck // it is one
}

// twirpCaller calls by Twirp's clients, whose methods are named after their requests.
type twirpCaller struct {
	pots  twirppot.Pot
	coins twirpcoin.Coin
}

func (c twirpCaller) call(t *testing.T, request, answer proto.Message) *refusal {
	t.Helper()
	name := strings.TrimSuffix(string(request.ProtoReflect().Descriptor().Name()), "Request")
	method := reflect.ValueOf(c.pots).MethodByName(name)
	if !method.IsValid() {
		method = reflect.ValueOf(c.coins).MethodByName(name)
	}
	got := method.Call([]reflect.Value{reflect.ValueOf(t.Context()), reflect.ValueOf(request)})

	if err, ok := reflect.TypeAssert[twirp.Error](got[1]); ok {
		retry, _ := strconv.Atoi(err.Meta("retry_after"))
		return &refusal{string(err.Code()), err.Meta("reason"), err.Meta("field"), time.Duration(retry) * time.Second}
	}
	if answer != nil {
		message, _ := reflect.TypeAssert[proto.Message](got[0])
		proto.Merge(answer, message)
	}
	return nil
}

// dial returns a connection of Google's client.
func dial(t *testing.T, r *replica) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(r.API, "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// readJSON reads an error of Connect or Twirp in JSON.
func readJSON(t *testing.T, a apptest.Answer) *refusal {
	t.Helper()
	var wire struct {
		Code    string
		Meta    struct{ Reason, Field string } // Twirp's
		Details []struct {
			Debug struct {
				Reason          string
				FieldViolations []struct{ Field string }
			}
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &wire); err != nil {
		t.Errorf("%s: %v", a, err)
	}
	refused := &refusal{code: wire.Code, reason: wire.Meta.Reason, field: wire.Meta.Field}
	for _, d := range wire.Details {
		refused.reason += d.Debug.Reason
		for _, v := range d.Debug.FieldViolations {
			refused.field += v.Field
		}
	}
	return refused
}

// callers returns a caller for each protocol of the service.
func callers(t *testing.T, r *replica) map[string]caller {
	t.Helper()
	http1 := newClient(t, &http.Transport{})
	return map[string]caller{
		"binary": newCaller(t, r.API, &http.Transport{}),
		"JSON":   newCaller(t, r.API, &http.Transport{}, connect.WithProtoJSON()),
		"Twirp": twirpCaller{
			twirppot.NewPotProtobufClient(r.API, http1), twirpcoin.NewCoinProtobufClient(r.API, http1),
		},
		"Twirp JSON": twirpCaller{
			twirppot.NewPotJSONClient(r.API, http1), twirpcoin.NewCoinJSONClient(r.API, http1),
		},
		"gzip over HTTP/2": newCaller(t, r.API, h2c(), connect.WithSendGzip()),
		"gRPC-Web":         newCaller(t, r.API, &http.Transport{}, connect.WithGRPCWeb()),
		"gRPC":             newCaller(t, r.API, h2c(), connect.WithGRPC()),
	}
}

func kinds(pairs ...int32) (list []*coin.Coins) {
	for pair := range slices.Chunk(pairs, 2) {
		list = append(list, &coin.Coins{Kind: coin.Coins_Kind(pair[0]), Count: pair[1]})
	}
	return list
}

func wantMessage(t *testing.T, what string, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func wantRefusal(t *testing.T, what string, got *refusal, code, reason, field string) {
	t.Helper()
	if got == nil || got.code != code || got.reason != reason || got.field != field {
		t.Errorf("%s: %+v, want %s, %s, field %q", what, got, code, reason, field)
	}
}

// send posts a body of a content type to a path.
func (r *replica) send(t *testing.T, path, contentType, body string) apptest.Answer {
	t.Helper()
	return apptest.Send(t, http.MethodPost, r.API+path, body, map[string]string{"Content-Type": contentType})
}
