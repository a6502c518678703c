package httpapi

import (
	"errors"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
)

// violationsError names the fields that break a rule, without their values.
type violationsError struct{ *errdetails.BadRequest }

// validate returns a violationsError for the rules of the contract that a request breaks.
func validate(v protovalidate.Validator, request any) error {
	err := v.Validate(request.(proto.Message)) //nolint:errcheck // Connect's requests are messages
	broken, ok := errors.AsType[*protovalidate.ValidationError](err)
	if !ok {
		return err
	}

	bad := &errdetails.BadRequest{}
	for _, v := range broken.Violations {
		field, rule := protovalidate.FieldPathString(v.Proto.GetField()), v.Proto.GetRuleId()
		if field == "" { // a rule of a whole message is named after the field at fault
			field, _, _ = strings.Cut(rule, ".")
		}
		bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: field, Description: field + " " + strings.TrimPrefix(v.Proto.GetMessage(), "value "),
			Reason: strings.ToUpper(strings.ReplaceAll(rule, ".", "_")),
		})
	}
	return violationsError{bad}
}

// Error returns a sentence for each violation.
func (e violationsError) Error() string {
	sentences := make([]string, len(e.FieldViolations))
	for i, v := range e.FieldViolations {
		sentences[i] = v.GetDescription()
	}
	return strings.Join(sentences, "; ") + "."
}
