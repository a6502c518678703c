package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var picture = flag.String("picture", "", "write a picture of the live page to this file")

// drive is what a person does on the page: turn the load up and, when every service answers, break three replicas.
const drive = `
	const text = (one, name) => Number(one.querySelector("." + name).textContent.replace(/\D/g, ""));
	const wait = setInterval(() => {
		const all = [...document.querySelectorAll("main > section")];
		if (all.length === 0) return;
		const load = document.getElementById("all");
		if (load.value !== "40") {
			load.value = "40";
			load.dispatchEvent(new Event("input", { bubbles: true }));
		}
		if (all.some((one) => text(one, "told") < 20)) return;
		clearInterval(wait);
		for (const what of ["kill", "cut", "freeze", "kill", "hold"]) {
			all.shift().querySelector("[data-what=" + what + "]").click();
		}
	}, 100);`

// seenState is what the page is told of one service.
type seenState struct {
	Name       string
	Told       int
	Difference int
	Fault      string // for the failure's message
	Replicas   []struct {
		Name, State string
		Restarts    int
	}
}

// TestLivePage drives the page in a browser: under load two replicas are killed and one is frozen, and what callers
// were told stays equal to what the database holds.
func TestLivePage(t *testing.T) {
	t.Parallel()
	open := chromium(t)
	r := start(t, nil, "up", "--replicas", "2", "--data", filepath.Join(folder(t), "data"))
	r.await("Ctrl-C stops everything.")
	found := regexp.MustCompile(`Watch it live, and break it: (http://\S+)`).FindStringSubmatch(r.output())
	if found == nil {
		t.Fatal("no address of the page is printed")
	}

	seen := make(chan struct{}) // closed when the browser may take the picture
	front := frontOf(t, found[1], seen)
	shot := filepath.Join(t.TempDir(), "live.png")
	wait := open("--window-size=1480,790", "--screenshot="+shot, front)

	watch(t, found[1])
	close(seen)
	dom := wait()
	if !regexp.MustCompile(`<output class="large" id="sum"[^>]*>0</output>`).MatchString(dom) {
		t.Errorf("the page shows no sum of 0:\n%s", dom)
	}
	if n := strings.Count(dom, `class="state `); n != 10 {
		t.Errorf("the page shows %d replicas, want 10", n)
	}
	keep(t, shot)
}

// frontOf serves the page with the driver, and with an image that comes when seen is closed: the browser takes its
// picture when the page is complete.
func frontOf(t *testing.T, address string, seen <-chan struct{}) string {
	t.Helper()
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1,
		ModifyResponse: func(resp *http.Response) error {
			if resp.Request.URL.Path != "/" {
				return nil
			}
			page, err := io.ReadAll(resp.Body)
			resp.Header.Del("Content-Security-Policy")
			resp.Header.Del("Content-Length")
			resp.ContentLength = -1
			resp.Body = io.NopCloser(strings.NewReader(strings.Replace(string(page), "</body>",
				`<img src="test/seen" alt="" hidden><script>`+drive+`</script></body>`, 1)))
			return err
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/test/seen" {
			proxy.ServeHTTP(w, r)
			return
		}
		select {
		case <-seen:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// watch follows what the page is told until the replicas that were killed are back, the frozen one goes on, and every
// service has done much since; for a picture, until its strips are full. All the time nothing may be lost or done
// twice.
func watch(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := new(http.Client).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read as far as it is wanted

	const aMinute = 120
	samples, wasFrozen, told := 0, false, map[string]int{}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var states []seenState
		if err := json.Unmarshal([]byte(data), &states); err != nil {
			t.Fatal(err)
		}

		restarts, ready, busy := 0, 0, 0
		for _, s := range states {
			if s.Difference != 0 {
				t.Fatalf("%+v", s)
			}
			for _, one := range s.Replicas {
				restarts += one.Restarts
				wasFrozen = wasFrozen || one.State == "frozen"
				if one.State == "ready" {
					ready++
				}
			}
			if told[s.Name] == 0 && wasFrozen {
				told[s.Name] = s.Told
			}
			if told[s.Name] > 0 && s.Told >= told[s.Name]+100 {
				busy++
			}
		}
		samples++
		if wasFrozen && restarts >= 2 && ready == 10 && busy == 5 && (*picture == "" || samples >= aMinute) {
			return
		}
	}
	t.Fatalf("the page was told no more: %v", lines.Err())
}

// keep keeps the picture where the flag says.
func keep(t *testing.T, shot string) {
	t.Helper()
	const most = 300 << 10
	image, err := os.ReadFile(shot)
	if err != nil || len(image) < 1<<10 || len(image) > most {
		t.Fatalf("a picture of %d bytes, %v", len(image), err)
	}
	if *picture != "" {
		if err := os.WriteFile(*picture, image, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
