package auth

import "net/http"

// Right is what a request needs and a policy rule grants. No right includes another. No subject has the zero value.
type Right string

const (
	// Read is for requests that change nothing.
	Read Right = "read"
	// Change is for requests that may change something.
	Change Right = "change"
	// Administer is for requests that a service reserves for administrators.
	Administer Right = "administer"
	// Public is for requests without a token. No rule can grant it.
	Public Right = "public"
)

// RightOf returns Read for the safe methods (RFC 9110, section 9.2.1), else Change.
func RightOf(method string) Right {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return Read
	}
	return Change
}
