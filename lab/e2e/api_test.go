//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// api reads objects by one `kubectl proxy`. To start a kubectl for each would take a
// fifth of a second of a CPU, on the node whose load is measured.
type api struct {
	base string
	http *http.Client
}

// startAPI runs the proxy until the test ends.
func startAPI(t *testing.T) api {
	t.Helper()
	proxy := exec.CommandContext(t.Context(), "kubectl", "proxy", "--port=0")
	out, err := proxy.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = proxy.Process.Kill()
		_ = proxy.Wait()
	})

	// "Starting to serve on 127.0.0.1:41234"
	line, err := bufio.NewReader(out).ReadString('\n')
	_, address, found := strings.Cut(strings.TrimSpace(line), "Starting to serve on ")
	if err != nil || !found {
		t.Fatalf("kubectl proxy says %q: %v", line, err)
	}
	return api{base: "http://" + address, http: &http.Client{Timeout: 20 * time.Second}}
}

// podsOf reads the pods that a selector finds, ending ones included.
func (s *story) podsOf(ctx context.Context, selector string) ([]core.Pod, error) {
	list := new(core.PodList)
	err := s.get(ctx, "/api/v1/namespaces/"+string(s.place)+"/pods", selector, list)
	return list.Items, err
}

// get reads an object, or a list by labels.
func (a api) get(ctx context.Context, path, selector string, into any) error {
	if selector != "" {
		path += "?labelSelector=" + url.QueryEscape(selector)
	}
	body, err := a.read(ctx, path)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// read returns what a path is answered.
func (a api) read(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := a.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return body, err
}
