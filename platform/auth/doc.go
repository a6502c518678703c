// Package auth identifies callers and checks their rights.
//
// A request carries a token (a JWT in the header Authorization, RFC 6750) that the cluster has signed for a service
// account. A [Guard] verifies it with the keys that the issuer publishes, and looks up in a policy file whether the
// subject has the right that the request needs. What no rule allows is refused.
//
// The issuer is never asked about a single token: a token is valid until it expires or its key is withdrawn.
package auth
