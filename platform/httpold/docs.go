package httpold

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page's parts
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"strconv"
)

// The page in three parts, so that each is what its editor thinks it is.
var (
	//go:embed docs/page.html
	pageHTML []byte
	//go:embed docs/page.css
	pageCSS []byte
	//go:embed docs/page.js
	pageJS []byte
)

// handleDocs serves the contract and the page to try it: one document without
// a single request to anywhere else but this server.
func (s *Server) handleDocs(docs Docs) error {
	contract, err := yamlToJSON(docs.OpenAPI)
	if err != nil {
		return fmt.Errorf("httpserver: the OpenAPI contract: %w", err)
	}
	page := bytes.NewBuffer(nil)
	for part := range bytes.Lines(pageHTML) {
		switch string(bytes.TrimSpace(part)) {
		case "<!-- title -->":
			fmt.Fprintf(page, "<title>%s</title>\n", html.EscapeString(docs.Title))
		case "<!-- style -->":
			fmt.Fprintf(page, "<style>%s</style>\n", pageCSS)
		case "<!-- script -->":
			fmt.Fprintf(page, "<script>%s</script>\n", pageJS)
		default:
			page.Write(part)
		}
	}
	// Only what is in the page may run in it, and it may talk only to this server.
	policy := fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; connect-src 'self'; "+
		"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'", digest(pageJS), digest(pageCSS))

	s.Handle(http.MethodGet, "/openapi.yaml", static("application/yaml", docs.OpenAPI))
	s.Handle(http.MethodGet, "/openapi.json", static("application/json", contract))
	s.Handle(http.MethodGet, "/docs", static("text/html; charset=utf-8", page.Bytes(),
		"Content-Security-Policy", policy, "Referrer-Policy", "no-referrer"))
	return nil
}

// digest is a source of a Content-Security-Policy: exactly these bytes.
func digest(source []byte) string {
	sum := sha256.Sum256(source)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// static serves bytes that change with the binary only, with more headers in pairs.
func static(contentType string, content []byte, headers ...string) Handler {
	sum := sha256.Sum256(content)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
	return func(w http.ResponseWriter, r *http.Request) error {
		h := w.Header()
		for i := 0; i+1 < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		h.Set("Cache-Control", "no-cache") // ask again, by the tag
		h.Set("ETag", tag)
		h.Set("X-Content-Type-Options", "nosniff")
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(content)))
		if _, err := w.Write(content); err != nil {
			return fmt.Errorf("httpserver: write %s: %w", contentType, err)
		}
		return nil
	}
}
