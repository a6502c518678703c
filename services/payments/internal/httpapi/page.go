package httpapi

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock/platform/problem"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// encodePosition returns a position as opaque text for next_after.
func encodePosition(p payment.Position) string {
	text := strconv.FormatInt(p.CreatedAt.UnixMicro(), 36) + "." + string(p.ID)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// decodePosition decodes the text of encodePosition. It returns 400 INVALID_FIELD for any
// other text.
func decodePosition(s string) (*payment.Position, error) {
	raw, decodeErr := base64.RawURLEncoding.DecodeString(s)
	micros, id, _ := strings.Cut(string(raw), ".")
	at, timeErr := strconv.ParseInt(micros, 36, 64)
	parsed, idErr := payment.ParseID(id)
	if decodeErr != nil || timeErr != nil || idErr != nil || at < 0 || at > maxMicros {
		return nil, problem.InvalidField.New("after must be the next_after of an earlier answer.", problem.Field("after"))
	}
	return &payment.Position{CreatedAt: time.UnixMicro(at).UTC(), ID: parsed}, nil
}

// maxMicros is the end of the year 9999.
const maxMicros = 253402300799999999
