package pyggpot_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/pyggpot"
	"github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
)

type service struct {
	potconnect.UnimplementedPotHandler

	err error
}

type response = connect.Response[pot.PotResponse]

func (s service) CreatePot(context.Context, *connect.Request[pot.CreatePotRequest]) (*response, error) {
	return nil, s.err
}

func (s service) ViewPot(context.Context, *connect.Request[pot.ViewPotRequest]) (*response, error) {
	return nil, s.err
}

func open(t *testing.T, handler http.Handler) *pyggpot.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return pyggpot.New(server.URL+"/", rowlock.WithoutRetries())
}

func failing(code connect.Code, details ...proto.Message) http.Handler {
	err := connect.NewError(code, errors.New("no"))
	for _, d := range details {
		detail, _ := connect.NewErrorDetail(d)
		err.AddDetail(detail)
	}
	_, handler := potconnect.NewPotHandler(service{err: err})
	return handler
}

func reason(code rowlock.Code) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Reason: string(code), Metadata: map[string]string{"trace_id": "7f"}}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	violated := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "pot_name"}}}
	for name, tc := range map[string]struct {
		handler             http.Handler
		want                rowlock.Error
		notApplied, unknown bool
	}{
		"refused": {
			failing(connect.CodeAlreadyExists, reason(pyggpot.ErrPotExists), violated),
			rowlock.Error{Code: pyggpot.ErrPotExists, Field: "pot_name", Detail: "no", TraceID: "7f"},
			false, false,
		},
		"locked": {
			failing(connect.CodeAborted, reason(pyggpot.ErrPotLocked),
				&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}),
			rowlock.Error{Code: pyggpot.ErrPotLocked, Detail: "no", TraceID: "7f", RetryAfter: time.Second, Repeat: true},
			true, false,
		},
		"outcome unknown": {
			failing(connect.CodeUnknown, reason(rowlock.ErrOutcomeUnknown)),
			rowlock.Error{Code: rowlock.ErrOutcomeUnknown, Detail: "no", TraceID: "7f"},
			false, true,
		},
		"a proxy's": {
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }),
			rowlock.Error{Code: rowlock.ErrAnswerLost, Detail: "unavailable: 503 Service Unavailable"},
			false, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, tc.handler)
			_, err := c.Pot.CreatePot(t.Context(), connect.NewRequest(&pot.CreatePotRequest{}))
			e, ok := errors.AsType[*rowlock.Error](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			if _, ok := errors.AsType[*connect.Error](err); !ok {
				t.Errorf("%v is no error of Connect", err)
			}
			if rowlock.NotApplied(err) != tc.notApplied || rowlock.OutcomeUnknown(err) != tc.unknown {
				t.Errorf("not applied %v, unknown %v", rowlock.NotApplied(err), rowlock.OutcomeUnknown(err))
			}
			e.Err = nil
			if *e != tc.want {
				t.Errorf("got %+v, want %+v", e, tc.want)
			}
			_, err = c.Pot.ViewPot(t.Context(), connect.NewRequest(&pot.ViewPotRequest{}))
			if rowlock.OutcomeUnknown(err) || rowlock.NotApplied(err) != (tc.notApplied || tc.unknown) {
				t.Errorf("a read: %v", err)
			}
		})
	}
}
