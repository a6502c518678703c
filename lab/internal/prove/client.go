package prove

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/history"
)

// answerLimit is when an answer counts as a hang: REQUEST_TIMEOUT is 10 s, and
// the driver may take 5 s more to give up a server that is silent.
const answerLimit = 18 * time.Second

// Caller sends requests to one service, by its balancer. It is for many goroutines.
type Caller struct {
	base string
	http *http.Client
}

// NewCaller returns a caller of the service at addr, "host:port".
func NewCaller(addr string) *Caller {
	return &Caller{base: "http://" + addr, http: &http.Client{
		// Less than the five seconds after which a server closes a connection that
		// was opened in vain: a request that meets the close would be lost.
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: 2 * time.Second},
		Timeout:   answerLimit,
	}}
}

// Close gives the idle connections back.
func (c *Caller) Close() { c.http.CloseIdleConnections() }

// Reply is what came back.
type Reply struct {
	Outcome history.Outcome
	Status  int // 0 when there was no answer
	Code    string
	Body    []byte
	Header  http.Header
	Err     error
}

// Send sends a request and classes the answer.
func (c *Caller) Send(ctx context.Context, method, path, body string, header map[string]string) Reply {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return Reply{Outcome: history.NotApplied, Code: "unsent", Err: err}
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return Reply{Outcome: lost(err), Code: "lost", Err: err}
	}
	raw, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return Reply{Outcome: history.Unknown, Code: "lost", Err: err}
	}
	r := Reply{Status: resp.StatusCode, Body: raw, Header: resp.Header}
	r.Outcome, r.Code = judge(resp.StatusCode, raw)
	return r
}

// lost classes a request without an answer: only a dial that failed is sure.
func lost(err error) history.Outcome {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return history.NotApplied
	}
	return history.Unknown
}

// Codes of this package, for answers that are in no table.
const (
	badBody    = "bad body"
	noDocument = "no problem document"
)

// judge reads a status by design.md section 2. An answer that is in no table is
// taken for Unknown under a code of its own, which a check finds.
func judge(status int, raw []byte) (history.Outcome, string) {
	if status < http.StatusMultipleChoices {
		return history.OK, ""
	}
	var doc struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(raw, &doc) != nil || doc.Code == "" {
		return history.Unknown, noDocument
	}
	switch {
	case status < http.StatusInternalServerError:
		return history.Refused, doc.Code
	case status == http.StatusServiceUnavailable:
		return history.NotApplied, doc.Code
	default:
		return history.Unknown, doc.Code
	}
}
