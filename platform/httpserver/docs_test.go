package httpserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

const contract = `openapi: 3.0.3
info: {title: Things, version: "1"}
paths:
  /z:
    get:
      responses:
        200: {description: "Fine: <b>"}
  /a:
    post:
      parameters:
        - {name: n, in: query, example: 2026-11-21, schema: {type: integer, minimum: 1, default: 1.5, nullable: true, x: null}}
`

func TestDocs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Config{Docs: Docs{Title: "Things & <more>", OpenAPI: []byte(contract)}})

	w := f.do(t, "GET", "/openapi.yaml", "")
	if w.Code != http.StatusOK || w.Body.String() != contract || w.Header().Get("Content-Type") != "application/yaml" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	w = f.do(t, "GET", "/openapi.json", "")
	const want = `{"openapi":"3.0.3","info":{"title":"Things","version":"1"},"paths":{"/z":{"get":{"responses":` +
		`{"200":{"description":"Fine: \u003cb\u003e"}}}},"/a":{"post":{"parameters":[{"name":"n","in":"query","example":"2026-11-21",` +
		`"schema":{"type":"integer","minimum":1,"default":1.5,"nullable":true,"x":null}}]}}}}`
	if w.Body.String() != want || !json.Valid(w.Body.Bytes()) {
		t.Errorf("openapi.json:\n%s, want\n%s", w.Body, want)
	}
	tag := w.Header().Get("ETag")
	if w := f.do(t, "GET", "/openapi.json", "", "If-None-Match", tag); tag == "" || w.Code != http.StatusNotModified || w.Body.Len() != 0 {
		t.Errorf("asked again by tag %s: %d", tag, w.Code)
	}

	w = f.do(t, "GET", "/docs", "")
	page := w.Body.String()
	if !strings.Contains(page, "<title>Things &amp; &lt;more&gt;</title>") || strings.Contains(page, "<!-- script -->") {
		t.Error("the page is not put together")
	}
	// What the contract says of a parameter is about the URL; the page says that it encodes.
	if !strings.Contains(page, "Type it as it is") {
		t.Error("the page does not say that it encodes by itself")
	}
	// Offline, and nothing runs that the policy does not name byte by byte.
	if outside := regexp.MustCompile(`https?://|\bsrc=|@import|\burl\(`).FindString(page); outside != "" {
		t.Errorf("the page refers to something outside: %s", outside)
	}
	policy := w.Header().Get("Content-Security-Policy")
	for tag, directive := range map[string]string{"script": "script-src", "style": "style-src"} {
		blocks := regexp.MustCompile(`(?s)<`+tag+`>(.*?)</`+tag+`>`).FindAllStringSubmatch(page, -1)
		if len(blocks) != 1 {
			t.Fatalf("%d blocks of %s", len(blocks), tag)
		}
		sum := sha256.Sum256([]byte(blocks[0][1]))
		if !strings.Contains(policy, directive+" 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
			t.Errorf("the policy does not allow the page's own %s: %s", tag, policy)
		}
	}
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy: %s", policy)
	}
	if inline := regexp.MustCompile(`\son[a-z]+=|style=`).FindString(string(pageHTML)); inline != "" {
		t.Errorf("the policy blocks %s", inline)
	}
	for _, path := range []string{"/docs", "/openapi.yaml", "/openapi.json"} {
		if w := newFixture(t, Config{}).do(t, "GET", path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s without a contract: %d", path, w.Code)
		}
	}
}

// TestDocsRequest runs the page's script, where there is something to run it:
// what it makes of what was typed.
func TestDocsRequest(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: the page's script was not run")
	}
	const before = `
globalThis.location = new URL("http://here:8083/docs");
globalThis.document = {};
globalThis.fetch = () => new Promise(() => {});
`
	const after = `
for (const typed of ["a/b", "a%2Fb", "100%", "a+b", ".", "..", "...", ".a"]) {
  const form = { elements: { "parameter path itemId": { value: typed } } };
  const made = request("get", "/counts/{itemId}/x", [{ in: "path", name: "itemId" }], form);
  console.log(typed, curl(made), fromBrowser(made.url));
}`
	out, err := exec.CommandContext(t.Context(), node, "-e", before+string(pageJS)+after).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var want strings.Builder
	for _, c := range []struct {
		typed, sent string
		browser     bool
	}{
		{"a/b", "a%2Fb", true},
		{"a%2Fb", "a%252Fb", true},
		{"100%", "100%25", true},
		{"a+b", "a%2Bb", true},
		{".", "%2E", false},
		{"..", "%2E%2E", false},
		{"...", "...", true},
		{".a", ".a", true},
	} {
		fmt.Fprintf(&want, "%s curl -i --path-as-is 'http://here:8083/counts/%s/x' %t\n", c.typed, c.sent, c.browser)
	}
	if string(out) != want.String() {
		t.Errorf("got\n%swant\n%s", out, &want)
	}
}

func TestYAMLRefused(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"", "- a", "a", "a: &x b\nc: *x", "a: .inf", "a: [", "a: b\n---\n"} {
		out, err := yamlToJSON([]byte(source))
		if err == nil && !bytes.Equal(out, []byte(`{"a":"b"}`)) {
			t.Errorf("%q became %s", source, out)
		}
	}
}
