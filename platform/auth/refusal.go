package auth

import (
	"errors"
	"fmt"

	"github.com/rowlock/rowlock/platform/problem"
)

// reason says why a request is refused, as a label of the metric. Empty means that it is not refused.
type reason string

const (
	reasonMissing   reason = "missing"
	reasonMalformed reason = "malformed"
	reasonSignature reason = "signature"
	reasonIssuer    reason = "issuer"
	reasonAudience  reason = "audience"
	reasonExpired   reason = "expired"
	reasonEarly     reason = "early"
	reasonKeys      reason = "keys"
	reasonUnseen    reason = "unseen_key"
	reasonPolicy    reason = "policy"
)

// ErrUnseenKey is the cause of a refusal of a token whose key the issuer did not publish a few seconds ago. It is no
// failure of the service: any client can invent such a key.
var ErrUnseenKey = errors.New("the token's key was not among the issuer's keys")

// sentences returns all reasons with the sentence for the client.
func sentences() map[reason]string {
	return map[reason]string{
		reasonMissing: "The request has no token. Send the header Authorization: Bearer with a token of the cluster.",
		reasonMalformed: "The token cannot be read. Send one JWT of at most 16 KiB, " +
			"signed with an asymmetric algorithm, with a subject and an expiry.",
		reasonSignature: "The token is not signed by a key of the issuer.",
		reasonIssuer:    "The token comes from another issuer.",
		reasonAudience:  "The token is for another audience.",
		reasonExpired:   "The token has expired.",
		reasonEarly:     "The token is not valid yet.",
		reasonKeys: "This replica cannot fetch the issuer's keys, so it cannot verify the token. " +
			"Nothing was applied; try again.",
		reasonUnseen: "The token's key was not among the issuer's keys a few seconds ago. Nothing was applied; try again.",
		reasonPolicy: "The policy does not allow the caller to send this request.",
	}
}

// problem returns the answer to a refused request.
func (r reason) problem() *problem.Error {
	const header = "WWW-Authenticate"
	detail := sentences()[r]

	switch r {
	case reasonKeys:
		return problem.NotApplied.New(detail)
	case reasonUnseen:
		return problem.NotApplied.New(detail, problem.Cause(ErrUnseenKey))
	case reasonPolicy:
		return problem.Forbidden.New(detail, problem.Header(header, `Bearer error="insufficient_scope"`))
	case reasonMissing:
		return problem.Unauthenticated.New(detail, problem.Header(header, "Bearer"))
	default:
	}

	return problem.Unauthenticated.New(detail, problem.Header(header,
		fmt.Sprintf(`Bearer error="invalid_token", error_description=%q`, detail)))
}
