package counts

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/rowlock/rowlock/client/internal/call"
)

// Option modifies one call. Calls ignore options that do not apply to them.
type Option func(*settings)

type settings struct {
	key      *string
	replayed *bool
	create   bool
}

// WithKey makes a change repeatable beyond the life of this process. key, 1 to 255
// printable ASCII characters, identifies the change. As long as the service keeps
// the key (15 minutes by default), the same call with the same key changes nothing
// more and returns the first call's result, even if that was ErrNotFound or
// ErrOverflow. If NotApplied or OutcomeUnknown report true for the error, the call
// may be repeated with the same key. Another change with the key is ErrKeyConflict.
//
// Without WithKey, all changes except Create and Delete get a random key, with
// which the client repeats them; see WithoutKeys of package rowlock.
func WithKey(key string) Option {
	header := call.Key(key)
	return func(s *settings) { s.key = &header }
}

// ReportReplayed sets replayed to whether the call's result, a value or an error of
// the service, repeats an earlier answer.
func ReportReplayed(replayed *bool) Option {
	return func(s *settings) { s.replayed = replayed }
}

// CreateMissing makes Apply create missing counters, with 0, before it changes them.
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

// report evaluates the header of an answer; nil if there was none.
func (s settings) report(header http.Header) {
	if s.replayed != nil {
		*s.replayed = header.Get("Idempotent-Replayed") == "true"
	}
}
