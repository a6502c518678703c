package localpg

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// relay stands on loopback between embedded-postgres and the repository, and adds what the library's download lacks: an end when the
// caller's context ends, limits of time, progress, a reason for a failure, and a checksum that must be there (the library takes an
// archive unchecked when its .sha256 is missing).
type relay struct {
	ctx        context.Context //nolint:containedctx // of the one download that this relay lives for
	opts       Options
	repository string
	client     *http.Client
	server     *http.Server
	listener   net.Listener
	served     chan struct{}

	mu      sync.Mutex
	sum     string // of the archive, as 64 hexadecimal digits
	failure error  // the first
}

// An archive of PostgreSQL has some 30 MB, a checksum 64 bytes. What is larger is something else.
const (
	maxArchive  = 512 << 20
	maxChecksum = 4 << 10
)

func newRelay(ctx context.Context, o Options) (*relay, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the download: %w", err)
	}
	r := &relay{
		ctx:        ctx,
		opts:       o,
		repository: strings.TrimRight(o.Repository, "/"),
		client: &http.Client{Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:   15 * time.Second,
			ResponseHeaderTimeout: 30 * time.Second,
			ForceAttemptHTTP2:     true,
		}},
		listener: listener,
		served:   make(chan struct{}),
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(r.served)
		// Ends with http.ErrServerClosed by close; should it end otherwise, the library's request fails and says so.
		_ = r.server.Serve(listener)
	}()
	return r, nil
}

func (r *relay) url() string { return "http://" + r.listener.Addr().String() }

// close ends the relay and returns why it could not do its work, if so.
func (r *relay) close() error {
	closeErr := r.server.Close()
	<-r.served
	r.client.CloseIdleConnections()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return r.failure
	}
	if closeErr != nil {
		return fmt.Errorf("end the download: %w", closeErr)
	}
	return nil
}

// ServeHTTP answers the library's two requests: for the archive, and then for its checksum.
func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var err error
	if strings.HasSuffix(req.URL.Path, ".sha256") {
		r.mu.Lock()
		sum := r.sum
		r.mu.Unlock()
		_, err = io.WriteString(w, sum)
	} else {
		err = r.archive(w, req.URL.Path)
	}
	if err == nil {
		return
	}
	r.mu.Lock()
	if r.failure == nil {
		r.failure = err
	}
	r.mu.Unlock()
	// Also cuts an answer that has begun: a short archive must not look complete.
	panic(http.ErrAbortHandler)
}

// archive passes the archive on, once its checksum is known.
func (r *relay) archive(w http.ResponseWriter, path string) error {
	sum, err := r.checksum(path)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.sum = sum
	r.mu.Unlock()

	resp, err := r.get(path)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	w.WriteHeader(http.StatusOK)
	meter := &meter{opts: r.opts, total: resp.ContentLength}
	n, err := io.Copy(io.MultiWriter(w, meter), io.LimitReader(resp.Body, maxArchive+1))
	switch {
	case err != nil:
		return fmt.Errorf("download %s%s: %w", r.repository, path, err)
	case n > maxArchive:
		return fmt.Errorf("%s%s is larger than %d MB", r.repository, path, maxArchive>>20)
	default:
		return nil
	}
}

func (r *relay) checksum(path string) (string, error) {
	resp, err := r.get(path + ".sha256")
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxChecksum))
	if err != nil {
		return "", fmt.Errorf("download %s%s.sha256: %w", r.repository, path, err)
	}
	// Some repositories add a line break, some the file's name.
	fields := strings.Fields(string(text))
	if len(fields) > 0 {
		if sum, err := hex.DecodeString(fields[0]); err == nil && len(sum) == 32 {
			return strings.ToLower(fields[0]), nil
		}
	}
	return "", fmt.Errorf("%s%s.sha256 is not a checksum", r.repository, path)
}

func (r *relay) get(path string) (*http.Response, error) {
	//nolint:gosec // the repository is the caller's choice, and the path comes from our own library over loopback
	req, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.repository+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("repository %s: %w", r.repository, err)
	}
	resp, err := r.client.Do(req) //nolint:gosec // as above
	if err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s%s: status %s", r.repository, path, resp.Status), resp.Body.Close())
	}
	return resp, nil
}

// meter says how far a download is, at every tenth or, when its size is not known, at every 10 MB.
type meter struct {
	opts        Options
	total, done int64
	said        int64
}

func (m *meter) Write(p []byte) (int, error) {
	m.done += int64(len(p))
	step := m.total / 10
	if m.total <= 0 {
		step = 10 << 20
	}
	if m.done-m.said >= step {
		m.said = m.done
		if m.total > 0 {
			m.opts.sayf("Downloaded %.1f of %.1f MB", float64(m.done)/(1<<20), float64(m.total)/(1<<20))
		} else {
			m.opts.sayf("Downloaded %.1f MB", float64(m.done)/(1<<20))
		}
	}
	return len(p), nil
}
