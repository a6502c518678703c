package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

type class uint8

const (
	acknowledged class = iota + 1
	notApplied
	unknown
	wrong
)

// outcome is an answer's class, and what was said.
type outcome struct {
	class class
	said  string
	body  string
}

const (
	answerTimeout = 15 * time.Second
	// redialWait is between two tries to connect, redialFor how long it is tried.
	redialWait = 50 * time.Millisecond
	redialFor  = 10 * time.Second
	// perConnection is after how many operations a client connects anew, so that the load finds new replicas.
	perConnection = 25
	largestAnswer = 1 << 20
)

// client is one caller, with a connection that it keeps for a while.
type client struct {
	api, internal string
	transport     *http.Transport
	http          *http.Client
	redialled     func()
	// patience is how long a refused connection is tried again.
	patience time.Duration
	uses     int
}

func newClient(o Options, redialled func()) *client {
	// The server closes idle connections after five seconds; this end is earlier.
	transport := &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * time.Second}
	c := &client{
		api: strings.TrimSuffix(o.URL, "/"), internal: strings.TrimSuffix(o.Internal, "/"), transport: transport,
		http: &http.Client{Transport: transport, Timeout: answerTimeout}, redialled: redialled,
		patience: redialFor,
	}
	if c.internal == "" {
		c.internal = c.api
	}
	return c
}

// used counts an operation.
func (c *client) used() {
	if c.uses++; c.uses%perConnection == 0 {
		c.transport.CloseIdleConnections()
	}
}

// send makes a request. What could not be connected is tried again for a while: it surely did not arrive.
func (c *client) send(ctx context.Context, method, target, body string, headers ...string) (status int, answer string, err error) {
	for deadline := time.Now().Add(c.patience); ; {
		status, answer, err = c.once(ctx, method, target, body, headers...)
		if !refused(err) || time.Now().After(deadline) {
			return status, answer, err
		}
		c.redialled()
		timer := time.NewTimer(redialWait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, "", ctx.Err()
		}
	}
}

func (c *client) once(ctx context.Context, method, target, body string, headers ...string) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		return 0, "", fmt.Errorf("%s %s: %w", method, target, err)
	}
	req.Header.Set("Accept", "application/json") // problems included
	if strings.HasPrefix(body, "{") {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header[headers[i]] = []string{headers[i+1]}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, "", err //nolint:wrapcheck // classified by its callers; it says method and URL itself
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, largestAnswer))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, "", fmt.Errorf("the answer broke off: %w", err)
	}
	return resp.StatusCode, string(data), nil
}

// refused tells whether no connection came about.
func refused(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// change makes a POST that changes something, and classes its answer.
func (c *client) change(ctx context.Context, target, body string, headers ...string) outcome {
	status, answer, err := c.send(ctx, http.MethodPost, target, body, headers...)
	var problem struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal([]byte(answer), &problem) // what is no problem has no code
	said := fmt.Sprintf("%d %s", status, problem.Code)
	switch {
	case refused(err):
		return outcome{notApplied, "refused for " + c.patience.String(), ""}
	case err != nil:
		return outcome{unknown, reason(err), ""}
	case status >= 200 && status < 300:
		return outcome{acknowledged, said, answer}
	case status == http.StatusServiceUnavailable:
		return outcome{notApplied, said, answer}
	case problem.Code == "OUTCOME_UNKNOWN":
		return outcome{unknown, said, answer}
	default:
		return outcome{wrong, said, answer}
	}
}

// reason is an error without its address, so that equal ones count together.
func reason(err error) string {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// read gets something, in several tries where the service does not answer yet.
func (c *client) read(ctx context.Context, method, target, body string) (answer string, err error) {
	for deadline := time.Now().Add(redialFor); ; {
		var status int
		status, answer, err = c.send(ctx, method, target, body)
		if err == nil && status == http.StatusOK {
			return answer, nil
		}
		if err == nil {
			err = fmt.Errorf("%s %s: %d %s", method, target, status, answer)
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return "", err
		}
		timer := time.NewTimer(redialWait)
		<-timer.C
	}
}
