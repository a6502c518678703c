package tools_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestClientIsGoGettable builds a program that calls all services, in an empty folder with nothing but the client
// module, by the oldest Go that the client names, and holds what that brings along to the list below. The program's
// requests name the client with the version that its go.mod requires.
func TestClientIsGoGettable(t *testing.T) {
	t.Parallel()

	client, err := filepath.Abs(filepath.Join("..", "client"))
	if err != nil {
		t.Fatal(err)
	}

	module := readFile(t, filepath.Join(client, "go.mod"))
	if strings.Contains(module, "replace") {
		t.Errorf("client/go.mod replaces a module, which no importer would see:\n%s", module)
	}

	oldest := regexp.MustCompile(`(?m)^go (\d+\.\d+\.\d+)$`).FindStringSubmatch(module)
	if oldest == nil {
		t.Fatalf("client/go.mod names no version of Go:\n%s", module)
	}

	folder := t.TempDir()
	for name, text := range map[string]string{
		"main.go": readFile(t, filepath.Join("testdata", "outside", "main.go")),
		"go.sum":  readFile(t, filepath.Join(client, "go.sum")),
		"go.mod": "module example.com/outside\n\ngo " + oldest[1] + "\n\n" +
			"require github.com/rowlock/rowlock/client v0.4.2\n" + // nothing is published yet
			"replace github.com/rowlock/rowlock/client => " + client + "\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	run := func(args ...string) string {
		t.Helper()

		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = folder
		cmd.Env = append(cmd.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOTOOLCHAIN=go"+oldest[1])

		var stderr strings.Builder

		cmd.Stderr = &stderr

		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
		}

		return string(out)
	}
	run("build", "-o", "outside", ".")

	for _, line := range calls(t, filepath.Join(folder, "outside")) {
		if !strings.Contains(line, ": rowlock-go/v0.4.2") {
			t.Errorf("a call does not name the client: %s", line)
		}
	}

	modules := strings.Fields(run("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "."))
	slices.Sort(modules)

	want := []string{
		"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go", // the rules in pyggpot's contract
		"connectrpc.com/connect",
		"example.com/outside",
		"github.com/apapsch/go-jsonmerge/v2", // of the OpenAPI runtime
		"github.com/google/uuid",
		"github.com/oapi-codegen/runtime",
		"github.com/rowlock/rowlock/client",
		"google.golang.org/genproto/googleapis/rpc", // the details of pyggpot's errors
		"google.golang.org/protobuf",
	}
	if got := slices.Compact(modules); !slices.Equal(got, want) {
		t.Errorf("a caller links\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// calls returns what the program prints, a line a service, when a server refuses all its calls with their User-Agent
// as the reason.
func calls(t *testing.T, program string) []string {
	t.Helper()

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprintf(w, `{"code":"not_found","detail":%[1]q,"message":%[1]q}`, r.UserAgent())
	}))
	t.Cleanup(server.Close)

	services, err := filepath.Glob(filepath.Join("..", "services", "*"))
	if err != nil {
		t.Fatal(err)
	}

	cmd := exec.CommandContext(t.Context(), program)
	for _, service := range services {
		cmd.Env = append(cmd.Env, strings.ToUpper(filepath.Base(service))+"_URL="+server.URL)
	}

	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")

	if len(lines) != len(services) {
		t.Errorf("%d of %d services were called: %v\n%s", len(lines), len(services), err, out)
	}

	return lines
}

// TestReadmesShowExamples holds the Go code of each service's README to its client's examples, which lab/acceptance
// runs: the lines of the page stand in an example, together and in that order.
func TestReadmesShowExamples(t *testing.T) {
	t.Parallel()

	pages, err := filepath.Glob(filepath.Join("..", "services", "*", "README.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("no services: %v", err)
	}

	for _, page := range pages {
		name := filepath.Base(filepath.Dir(page))
		examples := readFile(t, filepath.Join("..", "client", name, "example_test.go"))

		_, rest, _ := strings.Cut(readFile(t, page), "\n```go\n")

		code, _, found := strings.Cut(rest, "\n```\n")
		if !found {
			t.Errorf("%s shows no Go code", page)

			continue
		}

		indented := "\n\t" + strings.ReplaceAll(code, "\n", "\n\t") + "\n"
		if !strings.Contains(examples, strings.ReplaceAll(indented, "\n\t\n", "\n\n")) {
			t.Errorf("client/%s/example_test.go does not have the lines of services/%[1]s/README.md:\n%s", name, code)
		}
	}
}
