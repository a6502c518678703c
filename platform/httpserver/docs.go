package httpserver

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"
	"go.yaml.in/yaml/v3"
)

// The page around Swagger UI. swgui provides the UI's files.
var (
	//go:embed docs/page.html
	pageHTML string
	//go:embed docs/page.js
	pageJS []byte
)

// pagePolicy lets the page run only what this server serves, and talk only to this server.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// serveDocs serves the contract and a page to try it. The page needs no other server.
func (s *Server) serveDocs(docs Docs) {
	if docs.Version != "" {
		// Quoted, because YAML reads a bare commit such as 12345678 or 1234567e8 as a number.
		version := []byte("version: " + strconv.Quote(docs.Version))
		docs.OpenAPI = bytes.Replace(docs.OpenAPI, []byte("version: 0.0.0"), version, 1)
	}

	contract, err := yamlToJSON(docs.OpenAPI)
	if err != nil {
		panic(fmt.Errorf("httpserver: the OpenAPI contract: %w", err))
	}

	// Not html/template: it calls methods by name, so the linker would keep every method of every type.
	page := strings.ReplaceAll(pageHTML, "{{.}}", html.EscapeString(docs.Title))

	get := func(path string, handler echo.HandlerFunc) {
		s.public[path] = true
		s.echo.GET(path, handler)
	}

	get("/openapi.yaml", unchanging("application/yaml", docs.OpenAPI))
	get("/openapi.json", unchanging(echo.MIMEApplicationJSON, contract))
	get("/docs", unchanging(echo.MIMETextHTMLCharsetUTF8, []byte(page)))
	get("/docs/page.js", unchanging("text/javascript; charset=utf-8", pageJS))

	files := echo.WrapHandler(http.StripPrefix("/docs", statigz.FileServer(static.FS)))
	for _, name := range []string{"swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"} {
		get("/docs/"+name, files)
	}
}

// unchanging serves bytes that change only with the binary; a client that already has them gets 304.
func unchanging(contentType string, content []byte) echo.HandlerFunc {
	sum := sha256.Sum256(content)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`

	return func(c echo.Context) error {
		h := c.Response().Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache")
		h.Set("ETag", tag)

		if c.Request().Header.Get("If-None-Match") == tag {
			return c.NoContent(http.StatusNotModified)
		}

		h.Set(echo.HeaderContentLength, strconv.Itoa(len(content)))
		return c.Blob(http.StatusOK, contentType, content)
	}
}

// yamlToJSON converts a YAML mapping to JSON.
func yamlToJSON(source []byte) ([]byte, error) {
	var document map[string]any
	if err := yaml.Unmarshal(source, &document); err != nil {
		return nil, fmt.Errorf("not YAML: %w", err)
	}
	if len(document) == 0 {
		return nil, errors.New("it is empty")
	}
	translated, err := json.Marshal(document)
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return translated, nil
}
