package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
)

// Stored text that looks like an answer of net/http's own is text, wherever in an answer it stands: at the borders of
// the buffers of net/http, of bufio and of slowreader.go, at the begin of the last write or of one in between. The
// connection stays in step: its next request gets its own answer.
func TestTextDoesNotChangeFraming(t *testing.T) {
	t.Parallel()
	const stored = "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"
	f := newFixture(t, Config{})
	text := func(c echo.Context) string {
		pad, _ := strconv.Atoi(c.QueryParam("pad"))
		return strings.Repeat("A", pad) + stored
	}
	f.handle(http.MethodGet, "/whole", func(c echo.Context) error { return c.String(http.StatusOK, text(c)) })
	f.handle(http.MethodGet, "/json", func(c echo.Context) error { return c.JSON(http.StatusOK, []string{text(c)}) })
	f.handle(http.MethodGet, "/parts", func(c echo.Context) error {
		all := text(c)
		at := len(all) - len(stored)
		for _, part := range []string{all[:at], all[at:]} { // without a Content-Length: chunked, when it is long
			if _, err := io.WriteString(c.Response(), part); err != nil {
				return err
			}
		}
		return nil
	})
	f.handle(http.MethodGet, "/next", answer)
	addr := f.start(t)
	get := func(conn net.Conn, in *bufio.Reader, target string) string {
		t.Helper()
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", target); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", target, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %v", target, resp.StatusCode, err)
		}
		return string(body)
	}
	for _, border := range []int{0, 2 << 10, 4 << 10, 8 << 10, 32 << 10, unhurried, unhurried + partSize} {
		conn := dial(t, addr) // each has a deadline
		in := bufio.NewReaderSize(conn, unhurried)
		for _, pad := range paddings(border) {
			want := strings.Repeat("A", pad) + stored
			inJSON := `["` + strings.ReplaceAll(want, "\r\n", `\r\n`) + "\"]\n"
			for path, want := range map[string]string{"/whole": want, "/parts": want, "/json": inJSON} {
				if got := get(conn, in, path+"?pad="+strconv.Itoa(pad)); got != want {
					t.Fatalf("%s with %d bytes before: got %d bytes, want %d", path, pad, len(got), len(want))
				}
			}
			if next := get(conn, in, "/next"); next != `{"path":"/next"}`+"\n" {
				t.Fatalf("after %d bytes the next request got %q", pad, next)
			}
		}
	}
}

// paddings returns after how many bytes the stored text may begin at a border: of a buffer that has the body alone, or
// of one that has the header first, whose length depends on the answer.
func paddings(border int) (all []int) {
	const shortest, longest = 100, 300 // the header
	for pad := max(border-longest, 0); pad <= border+4; pad++ {
		ofBody, ofBoth := pad >= border-4, border < unhurried && pad <= border-shortest // slowreader.go counts the body alone
		if ofBody || ofBoth {
			all = append(all, pad)
		}
	}
	return all
}
