package auth

import "net/http"

// Right is what a request needs and a rule of the policy allows. No right includes another. The zero value is allowed
// to no subject.
type Right string

const (
	// Read is for requests that change nothing.
	Read Right = "read"
	// Change is for requests that may change something.
	Change Right = "change"
	// Administer is for the requests that a service keeps apart from its callers.
	Administer Right = "administer"
	// Public is for requests that need no token. No rule has it.
	Public Right = "public"
)

// RightOf returns Read for a method that promises to change nothing (RFC 9110, section 9.2.1), else Change.
func RightOf(method string) Right {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return Read
	}
	return Change
}
