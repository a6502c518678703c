package auth

import "context"

type callerKey struct{}

// WithCaller returns a context that carries the caller of the request: the subject of a
// verified token, such as system:serviceaccount:shop:checkout.
func WithCaller(ctx context.Context, subject string) context.Context {
	return context.WithValue(ctx, callerKey{}, subject)
}

// Caller returns the caller of ctx's request; empty if callers are not identified.
func Caller(ctx context.Context) string {
	subject, _ := ctx.Value(callerKey{}).(string)
	return subject
}
