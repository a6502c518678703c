package balance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// A body that is broken is its client's fault, wherever it breaks; up to 64 KiB no replica hears of the request.
func TestABrokenBodyIsTheClients(t *testing.T) {
	t.Parallel()
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 16<<10, strings.Repeat("x", 16<<10))
	for name, tt := range map[string]struct {
		body string
		sent bool // to a replica, in part, maybe
	}{
		"at once":              {body: "ZZ\r\n"},
		"after a chunk":        {body: chunk + "ZZ\r\n"},
		"after what is kept":   {body: strings.Repeat(chunk, 64) + "ZZ\r\n", sent: true},
		"a chunk of no length": {body: "\r\n{}\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var whole, arrived atomic.Int64
			addr := backend(t, func(_ http.ResponseWriter, r *http.Request) {
				arrived.Add(1)
				if _, err := io.Copy(io.Discard, r.Body); err == nil {
					whole.Add(1)
				}
				panic(http.ErrAbortHandler)
			})
			url, _ := balanced(t, addr, addr)
			status, header, body := post(t, strings.TrimPrefix(url, "http://"), tt.body)
			var doc struct {
				Code string `json:"code"`
			}
			if err := json.Unmarshal(body, &doc); err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			if status != http.StatusBadRequest || doc.Code != "INVALID_JSON" || header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("status %d %s, code %s; want 400 INVALID_JSON", status, header.Get("Content-Type"), doc.Code)
			}
			if whole.Load() != 0 {
				t.Error("the broken body arrived whole")
			}
			if n := arrived.Load(); n != 0 && !tt.sent {
				t.Errorf("a replica got the request %d times", n)
			}
		})
	}
}

// post sends a chunked body byte for byte.
func post(t *testing.T, addr, body string) (status int, header http.Header, answer []byte) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"+body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header, answer
}

// Around the size that is read ahead, with and without a known length, every byte passes.
func TestBodiesPassWhole(t *testing.T) {
	t.Parallel()
	addr := backend(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Length", strconv.FormatInt(r.ContentLength, 10))
		_, _ = w.Write(body)
	})
	url, _ := balanced(t, refused(t), addr)
	for _, size := range []int{0, 1, ahead - 1, ahead, ahead + 1, 3 * ahead} {
		want := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		for _, chunked := range []bool{false, true} {
			var body io.Reader = bytes.NewReader(want)
			length := strconv.Itoa(size)
			if chunked && size > 0 {
				body, length = io.MultiReader(body), "-1"
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || !bytes.Equal(got, want) || resp.Header.Get("Length") != length {
				t.Errorf("%d bytes, chunked %t: %d came back, length %s, %v", size, chunked, len(got), resp.Header.Get("Length"), err)
			}
		}
	}
}
