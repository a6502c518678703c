package sqldb

import "context"

// IsWrapped tells whether the settings put a wrapper around connections.
func IsWrapped(s Settings) bool {
	plain := &connector{}
	return traced(plain, s) != plain
}

// StartEnd is what tracing adds to a statement.
func StartEnd(s Settings) func(context.Context) {
	wrapped, ok := traced(&connector{}, s).(*tracedConnector)
	if !ok {
		return func(context.Context) {}
	}
	return func(ctx context.Context) { end(ctx, wrapped.tracing.start(ctx, "", "SELECT 1"), nil) }
}
