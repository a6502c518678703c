package httpserver

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
)

const contract = `openapi: 3.1.0
info:
  title: Things
  version: 0.0.0
paths:
  /a:
    get:
      responses:
        "200": {description: "Fine: <b>"}
`

func TestDocs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{Docs: Docs{Title: "Things & <more>", OpenAPI: []byte(contract)}})
	for path, want := range map[string]string{
		"/openapi.yaml":              contract,
		"/openapi.json":              `"paths":{"/a":{"get":{"responses":{"200":`,
		"/docs":                      "<title>Things &amp; &lt;more&gt;</title>",
		"/docs/page.js":              "SwaggerUIBundle(",
		"/docs/swagger-ui.css":       ".swagger-ui",
		"/docs/swagger-ui-bundle.js": "SwaggerUIBundle",
		"/docs/favicon-32x32.png":    "PNG",
	} {
		w := f.do(t, "GET", path, "")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %.100s", path, w.Code, w.Body)
		}
		if w := newFixture(t, Config{}).do(t, "GET", path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s without a contract: %d", path, w.Code)
		}
	}
	if got := f.do(t, "GET", "/docs", "").Header().Get("Content-Security-Policy"); got != pagePolicy {
		t.Errorf("the page's Content-Security-Policy: %q", got)
	}
	if strings.Contains(pagePolicy, "http") || strings.Contains(pagePolicy, "*") {
		t.Errorf("the policy allows other servers: %s", pagePolicy)
	}
	sent := f.do(t, "HEAD", "/openapi.yaml", "").Header()
	if sent.Get("Content-Length") != strconv.Itoa(len(contract)) {
		t.Errorf("HEAD: %v", sent)
	}
	again := f.do(t, "GET", "/openapi.yaml", "", "If-None-Match", sent.Get("ETag"))
	if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
		t.Errorf("the contract once more: %d %s", again.Code, again.Body)
	}

	// The version is a string in both forms, even one that looks like a number.
	f = newFixture(t, Config{Docs: Docs{OpenAPI: []byte(contract), Version: "1234567e8"}})
	for path, want := range map[string]string{
		"/openapi.yaml": "\n  version: \"1234567e8\"\n", "/openapi.json": `"version":"1234567e8"`,
	} {
		if got := f.do(t, "GET", path, "").Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s does not have %q: %s", path, want, got)
		}
	}

	for _, source := range []string{"", "- a", "a", "a: [", "a: .inf"} {
		if out, err := yamlToJSON([]byte(source)); err == nil {
			t.Errorf("%q became %s", source, out)
		}
	}
}

// The page of every service shows every operation in a browser, within its Content-Security-Policy: it asks no other
// server.
func TestDocsInABrowser(t *testing.T) {
	t.Parallel()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: the page was not opened")
	}
	contracts, err := filepath.Glob("../../services/*/api/openapi.yaml")
	if err != nil || len(contracts) < 5 {
		t.Fatalf("contracts: %v, %v", contracts, err)
	}
	for _, path := range contracts {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(path))), func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			addr := newFixture(t, Config{Docs: Docs{Title: "A service", OpenAPI: source}}).start(t)
			page, log := open(t, browser, "http://"+addr+"/docs")
			want := len(regexp.MustCompile(`(?m)^ {4}(get|put|post|delete|head|patch):$`).FindAll(source, -1))
			if got := strings.Count(page, `class="opblock-summary `); got != want || want == 0 {
				t.Errorf("the page shows %d operations of %d\n%s", got, want, log)
			}
			if bad := regexp.MustCompile(`.*(?:Content.Security.Policy|Uncaught).*`).FindString(log); bad != "" {
				t.Errorf("the console says: %s", bad)
			}
		})
	}
}

// open returns what a browser makes of a page and what it logs.
func open(t *testing.T, browser, url string) (page, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(), "--enable-logging=stderr", "--virtual-time-budget=5000",
		"--dump-dom", url)
	var dom, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &dom, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	return dom.String(), stderr.String()
}

// The page sends numbers as they were typed and shows them as they came. JavaScript's own round above 2^53.
func TestDocsKeepNumbersExact(t *testing.T) {
	t.Parallel()
	const typed, answered = `{"n": 9007199254740993}`, `{"n":9007199254740995}`
	const drive = `
		const click = (selector) => document.querySelector(selector).click();
		const steps = [
			() => click(".opblock-summary-control"),
			() => click(".try-out__btn"),
			() => {
				const area = document.querySelector(".body-param__text");
				Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(area, '` + typed + `');
				area.dispatchEvent(new Event("input", { bubbles: true }));
			},
			() => click(".execute"),
		];
		const next = () => { try { steps[0](); steps.shift(); } catch {} if (steps.length) setTimeout(next, 100); };
		next();`
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: the page was not opened")
	}

	f := newFixture(t, Config{Docs: Docs{Title: "Numbers", OpenAPI: []byte(`
openapi: 3.0.3
info: {title: Numbers, version: 1.0.0}
paths:
  /n:
    post:
      requestBody: {content: {application/json: {schema: {type: object}}}}
      responses: {"200": {description: The number.}}
`)}})
	sent := make(chan string, 1)
	f.handle(http.MethodPost, "/n", func(c echo.Context) error {
		body, err := io.ReadAll(c.Request().Body)
		sent <- string(body)
		return cmp.Or(err, c.JSONBlob(http.StatusOK, []byte(answered)))
	})
	f.Echo().GET("/docs/drive.js", unchanging("text/javascript", []byte(drive)))
	f.Echo().GET("/drive", unchanging("text/html", []byte(strings.Replace(pageHTML, "</body>",
		`<script src="docs/drive.js"></script></body>`, 1))))

	page, log := open(t, browser, "http://"+f.start(t)+"/drive")
	select {
	case body := <-sent:
		if body != typed {
			t.Errorf("the page sent %s", body)
		}
	default:
		t.Fatalf("the page sent nothing:\n%s\n%s", page, log)
	}
	if !strings.Contains(page, "9007199254740995") {
		t.Errorf("the page does not show %s:\n%s\n%s", answered, page, log)
	}
}
