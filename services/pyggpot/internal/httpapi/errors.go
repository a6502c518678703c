package httpapi

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// The kinds of problems that only this service has, with the statuses that Connect gives their codes.
var (
	potNotFound = problem.Define("POT_NOT_FOUND", http.StatusNotFound, "Pot not found")
	potExists   = problem.Define("POT_EXISTS", http.StatusConflict, "Pot exists")
	potFull     = problem.Define("POT_FULL", http.StatusBadRequest, "Pot is full")
	potLocked   = problem.Define("POT_LOCKED", http.StatusConflict, "Pot is locked")
)

// soon is after how long a change of a contended pot is worth a repeat.
const soon = time.Second

// ProblemOf returns what the client learns about an error of the domain or of validation, and nil for any other error.
func ProblemOf(err error) *problem.Error {
	if bad, ok := errors.AsType[*violationsError](err); ok {
		return problem.InvalidField.New(bad.Error(), problem.Field(bad.first()), problem.Cause(err))
	}
	for _, row := range []struct {
		sentinel error
		kind     problem.Kind
		detail   string
		options  []problem.Option
	}{
		{pot.ErrNotFound, potNotFound, "There is no such pot.", nil},
		{pot.ErrExists, potExists, "A pot has this name already.", []problem.Option{problem.Field("pot_name")}},
		{pot.ErrFull, potFull, "The coins do not fit into the pot. Nothing was added.", []problem.Option{problem.Field("coins")}},
		{pot.ErrInvalid, problem.InvalidField, "The request breaks a rule of its contract.", nil},
		{
			pot.ErrBusy, problem.Overloaded,
			"This replica has as many changes under way as it may. Nothing was changed; try again.", nil,
		},
		{
			pot.ErrTimeOver, problem.NotApplied, "The request's time was over before its turn came. Nothing was changed.", nil,
		},
		{
			pot.ErrLocked, potLocked, "Other changes of this pot were in the way for too long. Nothing was changed; try again.",
			[]problem.Option{problem.RetryAfter(soon)},
		},
	} {
		if errors.Is(err, row.sentinel) {
			return row.kind.New(row.detail, append(row.options, problem.Cause(err))...)
		}
	}
	return nil
}

// codeOf is the Connect code of each kind. unknown is for an outcome that is not
// known and for nothing else: no client, proxy or mesh repeats it by itself, as
// they do unavailable and, some of them, internal.
func codeOf(kind problem.Kind) connect.Code {
	switch kind {
	case problem.InvalidField, problem.InvalidJSON, problem.UnsupportedMediaType:
		return connect.CodeInvalidArgument
	case problem.NotFound, problem.MethodNotAllowed:
		return connect.CodeUnimplemented
	case problem.BodyTooLarge:
		return connect.CodeResourceExhausted
	case problem.NotApplied, problem.DatabaseUnavailable, problem.Overloaded:
		return connect.CodeUnavailable
	case problem.OutcomeUnknown:
		return connect.CodeUnknown
	case potNotFound:
		return connect.CodeNotFound
	case potExists:
		return connect.CodeAlreadyExists
	case potFull:
		return connect.CodeFailedPrecondition
	case potLocked:
		return connect.CodeAborted
	}
	return connect.CodeInternal
}

// domain is the namespace of the reasons in google.rpc.ErrorInfo.
const domain = "pyggpot"

// connectError is p as clients of Connect and gRPC know errors: its sentence, and
// as details google.rpc.ErrorInfo with the code that the other services name in
// problem+json, BadRequest with the fields at fault, and RetryInfo where a repeat
// makes sense. The cause is no part of it.
func connectError(p *problem.Error, traceID string) *connect.Error {
	e := connect.NewError(codeOf(p.Kind()), errors.New(p.Detail())) //nolint:err113 // a sentence for the client
	info := &errdetails.ErrorInfo{Reason: p.Kind().Code(), Domain: domain}
	if traceID != "" {
		info.Metadata = map[string]string{"trace_id": traceID}
	}
	addDetail(e, info)
	if bad, ok := errors.AsType[*violationsError](p); ok {
		addDetail(e, bad.detail())
	} else if p.Field() != "" {
		addDetail(e, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
			{Field: p.Field(), Description: p.Detail(), Reason: p.Kind().Code()},
		}})
	}
	if wait := p.RetryAfter(); wait > 0 {
		addDetail(e, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
		header := make(http.Header)
		p.SetHeaders(header)
		e.Meta().Set("Retry-After", header.Get("Retry-After"))
	}
	return e
}

// addDetail adds a detail. One that cannot be encoded is a mistake in the program
// that costs the detail.
func addDetail(e *connect.Error, message proto.Message) {
	if detail, err := connect.NewErrorDetail(message); err == nil {
		e.AddDetail(detail)
	}
}

// isProcedure tells whether a path is one that clients of Connect or gRPC ask for.
func isProcedure(path string) bool {
	return strings.HasPrefix(path, "/pyggpot.") || strings.HasPrefix(path, twirp+"/") || strings.HasPrefix(path, "/grpc.")
}

// ErrorWriter returns what answers the server's own errors: in the protocol that
// the request is of where its path is a procedure's, with the status that any
// other API has for it; as problem+json elsewhere.
func ErrorWriter() func(w http.ResponseWriter, r *http.Request, p *problem.Error, traceID string) error {
	writer := connect.NewErrorWriter()
	return func(w http.ResponseWriter, r *http.Request, p *problem.Error, traceID string) error {
		if !isProcedure(r.URL.Path) {
			return problem.Write(w, p, traceID)
		}
		p.SetHeaders(w.Header())
		w.Header().Del("Retry-After") // connectError has it too
		return writer.Write(statusWriter{w, p.Kind().Status()}, r, connectError(p, traceID))
	}
}

// statusWriter answers an error with a status of its own: Connect would answer
// 501 to a path that is not there. gRPC's errors are 200 and stay so.
type statusWriter struct {
	http.ResponseWriter

	status int
}

// WriteHeader begins the answer.
func (w statusWriter) WriteHeader(status int) {
	if status != http.StatusOK {
		status = w.status
	}
	w.ResponseWriter.WriteHeader(status)
}
