package contracts_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestDocuments holds every service's OpenAPI document to what flaws looks for.
func TestDocuments(t *testing.T) {
	t.Parallel()

	files, err := filepath.Glob(filepath.Join(root, "services", "*", "api", "openapi.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no documents: %v", err)
	}

	for _, name := range files {
		document, err := openapi3.NewLoader().LoadFromFile(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)

			continue
		}

		for _, flaw := range flaws(t, document) {
			t.Errorf("%s: %s", name, flaw)
		}
	}
}

// TestFlawsAreSeen demands every flaw of a document that has them all.
func TestFlawsAreSeen(t *testing.T) {
	t.Parallel()

	document, err := openapi3.NewLoader().LoadFromFile(filepath.Join("testdata", "flawed.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	found := strings.Join(flaws(t, document), "\n")

	for _, want := range []string{
		"it is OpenAPI 3.0.3, want 3.1.0",
		"its version is 1.0.0, want 0.0.0",
		"value must be a string", // a wrong example
		"GET /a: GetA is no good name",
		"GET /a: 200 text/plain has no example",
		"POST /a: 201 application/json has no example",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("%q is not among the flaws:\n%s", want, found)
		}
	}
}

var goodName = regexp.MustCompile(`^[a-z]+([A-Z][a-z]+)+$`)

// flaws lists what is wrong with a document: another version than the one that all have, what OpenAPI does not allow,
// examples that do not match their schemas, operations without a name such as listCounts, and successes without an
// example of their body.
func flaws(t *testing.T, document *openapi3.T) (found []string) {
	t.Helper()

	flaw := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }

	if document.OpenAPI != "3.1.0" {
		flaw("it is OpenAPI %s, want 3.1.0", document.OpenAPI)
	}

	if document.Info.Version != "0.0.0" {
		flaw("its version is %s, want 0.0.0, for which a program puts its own", document.Info.Version)
	}

	if err := document.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		flaw("%v", err)
	}

	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			if !goodName.MatchString(operation.OperationID) {
				flaw("%s %s: %s is no good name", method, path, operation.OperationID)
			}

			for status, response := range operation.Responses.Map() {
				if !strings.HasPrefix(status, "2") {
					continue
				}

				for contentType, body := range response.Value.Content {
					if body.Example == nil && len(body.Examples) == 0 {
						flaw("%s %s: %s %s has no example", method, path, status, contentType)
					}
				}
			}
		}
	}

	return found
}
