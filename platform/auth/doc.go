// Package auth tells who calls, and whether they may.
//
// A request carries a token (a JWT in the header Authorization, RFC 6750) that the cluster has signed for a service
// account. A [Guard] verifies it by the keys that the issuer publishes, and looks up in the policy, a file, whether its
// subject has the right that the request needs. What no rule allows is refused.
//
// Nothing here asks the issuer about a single token: a token is good until it expires, or until its key is withdrawn.
package auth
