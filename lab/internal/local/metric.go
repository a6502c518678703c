package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Metric reads the sum of the series of a name at a replica's admin address. The name may include labels. An address
// without such a series is an error.
func Metric(ctx context.Context, admin, name string) (sum float64, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: readyTimeout}
	_, text, err := get(ctx, &client, admin, "/metrics")
	if err != nil {
		return 0, err
	}
	err = fmt.Errorf("/metrics of %s has no %s", admin, name)
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		value, failed := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' ')+1:]), 64)
		if failed == nil {
			sum, err = sum+value, nil
		}
	}
	return sum, err
}

// get reads a page of a replica.
func get(ctx context.Context, client *http.Client, admin, path string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+path, http.NoBody)
	if err != nil {
		return 0, "", fmt.Errorf("read %s: %w", path, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("read %s: %w", path, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, "", fmt.Errorf("read %s: %w", path, err)
	}
	return resp.StatusCode, string(body), nil
}
