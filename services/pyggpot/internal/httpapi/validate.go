package httpapi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
)

// newValidator compiles the rules of every request, so that a rule that is wrong
// ends the start, and the first request is as quick as any other.
//
//nolint:ireturn // its package has no other type for it
func newValidator() (protovalidate.Validator, error) {
	v, err := protovalidate.New(protovalidate.WithDisableLazy(), protovalidate.WithMessages(
		&coin.AddCoinsRequest{}, &coin.RemoveCoinsRequest{},
		&potpb.CreatePotRequest{}, &potpb.ViewPotRequest{}, &potpb.ViewPotByNameRequest{}, &potpb.ListPotsRequest{}))
	if err != nil {
		return nil, fmt.Errorf("the contract's rules: %w", err)
	}
	return v, nil
}

// validated refuses requests that break a rule of the contract.
func validated(v protovalidate.Validator) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			message, ok := request.Any().(proto.Message)
			if !ok {
				return nil, fmt.Errorf("a request of type %T, which is no message", request.Any())
			}
			if err := v.Validate(message); err != nil {
				if broken, ok := errors.AsType[*protovalidate.ValidationError](err); ok {
					return nil, violationsOf(broken)
				}
				return nil, fmt.Errorf("validate a request: %w", err)
			}
			return next(ctx, request)
		}
	}
}

// violationsError says which fields break a rule, without their values.
type violationsError struct {
	violations []violation
}

type violation struct {
	field string
	rule  string // the rule's name
	text  string
}

func violationsOf(err *protovalidate.ValidationError) *violationsError {
	all := make([]violation, 0, len(err.Violations))
	for _, v := range err.Violations {
		field := protovalidate.FieldPathString(v.Proto.GetField())
		if field == "" { // a rule of a whole message is named after the field at fault
			field, _, _ = strings.Cut(v.Proto.GetRuleId(), ".")
		}
		all = append(all, violation{field, v.Proto.GetRuleId(), v.Proto.GetMessage()})
	}
	return &violationsError{all}
}

// sentence is the violation for a person.
func (v violation) sentence() string {
	return v.field + " " + strings.TrimPrefix(v.text, "value ")
}

// Error is all sentences.
func (e *violationsError) Error() string {
	sentences := make([]string, 0, len(e.violations))
	for _, v := range e.violations {
		sentences = append(sentences, v.sentence())
	}
	return strings.Join(sentences, "; ") + "."
}

// first is the first field at fault.
func (e *violationsError) first() string { return e.violations[0].field }

func (e *violationsError) detail() *errdetails.BadRequest {
	bad := &errdetails.BadRequest{}
	for _, v := range e.violations {
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: v.field, Description: v.sentence(), Reason: strings.ToUpper(strings.ReplaceAll(v.rule, ".", "_")),
		})
	}
	return bad
}
