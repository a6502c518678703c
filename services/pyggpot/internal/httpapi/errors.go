package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// The problems that only this service has, with the HTTP statuses of their Connect codes.
var (
	potNotFound = problem.Define("POT_NOT_FOUND", http.StatusNotFound, "Pot not found")
	outOfRange  = problem.Define("PAGE_OUT_OF_RANGE", http.StatusBadRequest, "Page out of range")
	potExists   = problem.Define("POT_EXISTS", http.StatusConflict, "Pot exists")
	potFull     = problem.Define("POT_FULL", http.StatusBadRequest, "Pot is full")
	potLocked   = problem.Define("POT_LOCKED", http.StatusConflict, "Pot is locked")
)

// ProblemOf returns the problem that tells the client about an error of the domain or of validation, and nil for any
// other error.
func ProblemOf(err error) *problem.Error {
	if bad, ok := errors.AsType[violationsError](err); ok {
		field := bad.FieldViolations[0].GetField()
		return problem.InvalidField.New(bad.Error(), problem.Field(field), problem.Cause(err))
	}

	return problem.Table{
		{Err: pot.ErrNotFound, Kind: potNotFound, Detail: "There is no such pot."},
		{
			Err: pot.ErrOutOfRange, Kind: outOfRange, Field: "page",
			Detail: "The page begins after more than 1,000,000 pots, and such pages are not listed.",
		},
		{Err: pot.ErrExists, Kind: potExists, Detail: "A pot has this name already.", Field: "pot_name"},
		{Err: pot.ErrFull, Kind: potFull, Detail: "The coins do not fit into the pot. Nothing was added.", Field: "coins"},
		{
			Err: pot.ErrTimeOver, Kind: problem.NotApplied,
			Detail: "The request ran out of time before its turn. Nothing was changed.",
		},
		{
			Err: pot.ErrLocked, Kind: potLocked, RetryAfter: time.Second,
			Detail: "Other changes of this pot took too long. Nothing was changed; try again.",
		},
	}.Of(err)
}

// codeOf returns the Connect code of a kind. Only an unknown outcome has the code unknown: no client, proxy or mesh
// repeats it automatically, as they do with unavailable and, some of them, with internal.
func codeOf(kind problem.Kind) connect.Code {
	code, known := map[problem.Kind]connect.Code{
		problem.InvalidField: connect.CodeInvalidArgument, problem.InvalidJSON: connect.CodeInvalidArgument,
		problem.UnsupportedMediaType: connect.CodeInvalidArgument,
		problem.Unauthenticated:      connect.CodeUnauthenticated,
		problem.CrossSite:            connect.CodePermissionDenied, problem.Forbidden: connect.CodePermissionDenied,
		problem.NotFound: connect.CodeUnimplemented, problem.MethodNotAllowed: connect.CodeUnimplemented,
		problem.BodyTooLarge: connect.CodeResourceExhausted,
		problem.NotApplied:   connect.CodeUnavailable, problem.DatabaseUnavailable: connect.CodeUnavailable,
		problem.Overloaded:     connect.CodeUnavailable,
		problem.OutcomeUnknown: connect.CodeUnknown,

		potNotFound: connect.CodeNotFound, outOfRange: connect.CodeOutOfRange, potExists: connect.CodeAlreadyExists,
		potFull: connect.CodeFailedPrecondition, potLocked: connect.CodeAborted,
	}[kind]
	if !known {
		return connect.CodeInternal
	}
	return code
}

// connectError returns p as a Connect error: its sentence, and as details google.rpc.ErrorInfo with the code that the
// other services send in problem+json, BadRequest with the fields at fault, and RetryInfo if the client may repeat the
// request. It does not contain the cause.
func connectError(p *problem.Error, traceID string) *connect.Error {
	e := connect.NewError(codeOf(p.Kind()), errors.New(p.Detail()))
	info := &errdetails.ErrorInfo{Reason: p.Kind().Code(), Domain: "pyggpot"}
	if traceID != "" {
		info.Metadata = map[string]string{"trace_id": traceID}
	}
	addDetail(e, info)

	if bad, ok := errors.AsType[violationsError](p); ok {
		addDetail(e, bad.BadRequest)
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

// addDetail adds a detail to e. It leaves out a detail that cannot be encoded, which would be a bug.
func addDetail(e *connect.Error, message proto.Message) {
	if detail, err := connect.NewErrorDetail(message); err == nil {
		e.AddDetail(detail)
	}
}

// ErrorWriter returns the function that writes the server's own errors: under /twirp in Twirp's form, under the path of
// a procedure in the protocol of the request with the status that the other services use, elsewhere as problem+json.
func ErrorWriter() func(w http.ResponseWriter, r *http.Request, p *problem.Error, traceID string) error {
	writer := connect.NewErrorWriter()
	return func(w http.ResponseWriter, r *http.Request, p *problem.Error, traceID string) error {
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, twirp+"/"):
			return writeTwirp(w, p, traceID)
		case strings.HasPrefix(path, "/pyggpot."), strings.HasPrefix(path, "/grpc."):
			p.SetHeaders(w.Header())
			w.Header().Del("Retry-After") // connectError sets it
			return writer.Write(&statusWriter{ResponseWriter: w, status: p.Kind().Status()}, r, connectError(p, traceID))
		}
		return problem.Write(w, p, traceID)
	}
}

// statusWriter replaces the status of an error: Connect would answer 501 to an unknown path. It adds the length, so
// that an answer that comes before the request's body has an end at once. Errors of gRPC keep their status 200.
type statusWriter struct {
	http.ResponseWriter

	status int
	begun  bool // the error's header is to be written with its body
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	if status == http.StatusOK {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.begun = true
}

// Write implements http.ResponseWriter. Connect writes an error's body at once.
func (w *statusWriter) Write(p []byte) (int, error) {
	if w.begun {
		w.begun = false
		w.Header().Set("Content-Length", strconv.Itoa(len(p)))
		w.ResponseWriter.WriteHeader(w.status)
	}
	return w.ResponseWriter.Write(p)
}
