package counts

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/rowlock/rowlock/client/internal/call"
)

// Option changes one call. Calls that have no use for an option ignore it.
type Option func(*settings)

type settings struct {
	key      *string
	replayed *bool
	create   bool
}

// WithKey makes a change repeatable beyond the life of this process. key, 1 to 255
// printable characters of ASCII, is the caller's name of this change: for as long
// as the service keeps keys (15 minutes unless it is set otherwise), the same call
// with the same key changes nothing more and returns what the first one did, an
// ErrNotFound or ErrOverflow too. When NotApplied or OutcomeUnknown of the error
// report true, the call may be repeated with the same key. Another change with the
// key is ErrKeyConflict.
//
// Without it a change but Create and Delete has a random key, by which the client
// repeats it; see WithoutKeys of package rowlock.
func WithKey(key string) Option {
	header := call.Key(key)
	return func(s *settings) { s.key = &header }
}

// ReportReplayed sets replayed to whether what the call returns, values or an
// error of the service, was answered before.
func ReportReplayed(replayed *bool) Option {
	return func(s *settings) { s.replayed = replayed }
}

// CreateMissing makes Apply create counters that do not exist, with 0, before it changes them.
func CreateMissing() Option {
	return func(s *settings) { s.create = true }
}

func (c *Client) collect(options []Option) settings {
	var s settings
	for _, option := range options {
		option(&s)
	}
	if s.key == nil && c.keys {
		key := uuid.NewString()
		s.key = &key
	}
	return s
}

// report reads the header of an answer, nil without one.
func (s settings) report(header http.Header) {
	if s.replayed != nil {
		*s.replayed = header.Get("Idempotent-Replayed") == "true"
	}
}
