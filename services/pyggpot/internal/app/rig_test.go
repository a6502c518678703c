package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/app"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Main(m)) }

// replica is one running App.
type replica struct {
	*apptest.Replica

	addr string
}

// start runs a replica on dsn until the test ends.
func start(t *testing.T, dsn string, environ map[string]string) *replica {
	t.Helper()
	r := apptest.Run(t, app.Service(), dsn, map[string]string{"LOG_REQUESTS": "all"}, environ)
	return &replica{r, strings.TrimPrefix(r.API, "http://")}
}

// refusal is what a client is told in the place of an answer.
type refusal struct {
	code   string // Connect's
	reason string // google.rpc.ErrorInfo
	field  string // google.rpc.BadRequest, the first
	retry  time.Duration
	text   string
}

func (r *refusal) read(details []proto.Message) {
	for _, d := range details {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			r.reason = d.GetReason()
		case *errdetails.BadRequest:
			r.field = d.GetFieldViolations()[0].GetField()
		case *errdetails.RetryInfo:
			r.retry = d.GetRetryDelay().AsDuration()
		}
	}
}

// caller calls procedures in one of the ways that the service offers.
type caller interface {
	call(t *testing.T, request, answer proto.Message) *refusal
}

// procedure is the one whose request this is.
func procedure(request proto.Message) string {
	switch request.(type) {
	case *potpb.CreatePotRequest:
		return potconnect.PotCreatePotProcedure
	case *potpb.ViewPotRequest:
		return potconnect.PotViewPotProcedure
	case *potpb.ViewPotByNameRequest:
		return potconnect.PotViewPotByNameProcedure
	case *potpb.ListPotsRequest:
		return potconnect.PotListPotsProcedure
	case *coin.AddCoinsRequest:
		return coinconnect.CoinAddCoinsProcedure
	case *coin.RemoveCoinsRequest:
		return coinconnect.CoinRemoveCoinsProcedure
	}
	return "/none"
}

// byConnect is the generated client.
type byConnect struct {
	pots  potconnect.PotClient
	coins coinconnect.CoinClient
}

func newConnect(t *testing.T, r *replica, transport *http.Transport, options ...connect.ClientOption) byConnect {
	t.Helper()
	transport.IdleConnTimeout = 2 * time.Second
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	return byConnect{
		potconnect.NewPotClient(client, "http://"+r.addr, options...), coinconnect.NewCoinClient(client, "http://"+r.addr, options...),
	}
}

// h2c is a transport that speaks HTTP/2 only.
func h2c() *http.Transport {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	return tr
}

func (c byConnect) call(t *testing.T, request, answer proto.Message) *refusal {
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
		proto.Merge(answer, got)
		return nil
	}
	refused := &refusal{code: connect.CodeOf(err).String(), text: err.Error()}
	if known, ok := errors.AsType[*connect.Error](err); ok {
		var details []proto.Message
		for _, d := range known.Details() {
			value, err := d.Value()
			if err != nil {
				t.Error(err)
			}
			details = append(details, value)
		}
		refused.read(details)
	}
	return refused
}

//nolint:ireturn // a message is known by its methods alone
func message[T any](r *connect.Response[T], err error) (proto.Message, error) {
	if err != nil {
		return nil, err
	}
	return r.Any().(proto.Message), nil //nolint:forcetypeassert,errcheck // it is one
}

// byGRPC is Google's client.
type byGRPC struct{ conn *grpc.ClientConn }

func newGRPC(t *testing.T, r *replica) byGRPC {
	t.Helper()
	conn, err := grpc.NewClient(r.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return byGRPC{conn}
}

func (c byGRPC) call(t *testing.T, request, answer proto.Message) *refusal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := c.conn.Invoke(ctx, procedure(request), request, answer)
	if err == nil {
		return nil
	}
	s := status.Convert(err)
	refused := &refusal{code: connect.Code(s.Code()).String(), text: s.Message()}
	var details []proto.Message
	for _, d := range s.Details() {
		if m, ok := d.(proto.Message); ok {
			details = append(details, m)
		}
	}
	refused.read(details)
	return refused
}

// byJSON is a plain POST.
type byJSON struct{ base string }

func (c byJSON) call(t *testing.T, request, answer proto.Message) *refusal {
	t.Helper()
	body, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	a := apptest.Send(t, http.MethodPost, c.base+procedure(request), string(body), apptest.JSON())
	if a.Status == http.StatusOK {
		if err := protojson.Unmarshal([]byte(a.Body), answer); err != nil {
			t.Errorf("%s: %v", a, err)
		}
		return nil
	}
	return readJSON(t, a)
}

// readJSON reads an error of Connect.
func readJSON(t *testing.T, a apptest.Answer) *refusal {
	t.Helper()
	var wire struct {
		Code, Message string
		Details       []struct{ Type, Value string }
	}
	if err := json.NewDecoder(strings.NewReader(a.Body)).Decode(&wire); err != nil {
		t.Errorf("%s: %v", a, err)
		return &refusal{text: a.String()}
	}
	refused := &refusal{code: wire.Code, text: wire.Message}
	var details []proto.Message
	for _, d := range wire.Details {
		raw, err := base64.RawStdEncoding.DecodeString(d.Value)
		if err != nil {
			t.Error(err)
		}
		m := map[string]proto.Message{
			"google.rpc.ErrorInfo": new(errdetails.ErrorInfo), "google.rpc.BadRequest": new(errdetails.BadRequest),
			"google.rpc.RetryInfo": new(errdetails.RetryInfo),
		}[d.Type]
		if err := proto.Unmarshal(raw, m); err != nil {
			t.Error(err)
		}
		details = append(details, m)
	}
	refused.read(details)
	return refused
}

// callers are all ways to call a replica.
func callers(t *testing.T, r *replica) map[string]caller {
	t.Helper()
	return map[string]caller{
		"connect":             newConnect(t, r, &http.Transport{}),
		"connect in JSON":     newConnect(t, r, &http.Transport{}, connect.WithProtoJSON()),
		"connect over HTTP/2": newConnect(t, r, h2c(), connect.WithSendGzip()),
		"gRPC-Web":            newConnect(t, r, &http.Transport{}, connect.WithGRPCWeb()),
		"connect's gRPC":      newConnect(t, r, h2c(), connect.WithGRPC()),
		"gRPC":                newGRPC(t, r),
		"JSON":                byJSON{"http://" + r.addr},
		"JSON under /twirp":   byJSON{"http://" + r.addr + "/twirp"},
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

// raw sends bytes and reads bytes.
func raw(t *testing.T, url, contentType string, body io.Reader) apptest.Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return apptest.Answer{}
	}
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(resp.Body); err != nil {
		t.Error(err)
	}
	_ = resp.Body.Close()
	return apptest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: buf.String()}
}
