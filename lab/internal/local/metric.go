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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: readyTimeout}
	resp, err := client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	err = fmt.Errorf("/metrics of %s has no %s", admin, name)
	for line := range strings.Lines(string(text)) {
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
