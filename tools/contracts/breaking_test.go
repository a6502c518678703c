package contracts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// root is the repository's.
const root = "../.."

// A repo is a small repository with the contract of one service, whose branch main has two commits that are alike.
type repo struct {
	folder       string
	oasdiff, buf string
}

const (
	countsDocument = "services/counts/api/openapi.yaml"
	potProto       = "services/pyggpot/api/pyggpot/pot/pot.proto"

	// renamed is what oasdiff says when currentValue is gone.
	renamed = "removed the required property `currentValue`"
)

func newRepo(t *testing.T, service, buf string) repo {
	t.Helper()

	r := repo{folder: t.TempDir(), oasdiff: tool(t, ".", "oasdiff"), buf: buf}
	for _, folder := range []string{"hack", filepath.Join("services", service, "api")} {
		if err := os.CopyFS(filepath.Join(r.folder, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			t.Fatal(err)
		}
	}

	r.git(t, "init", "--quiet", "--initial-branch=main")
	r.commit(t)
	r.commit(t)

	return r
}

func tool(t *testing.T, module, name string) string {
	t.Helper()

	cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", name)
	cmd.Dir, cmd.Env = module, append(os.Environ(), "GOWORK=off")

	path, err := cmd.Output()
	if err != nil {
		t.Fatalf("go tool -n %s: %v", name, err)
	}

	return strings.TrimSpace(string(path))
}

func (r repo) git(t *testing.T, args ...string) {
	t.Helper()

	args = append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = r.folder

	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func (r repo) commit(t *testing.T) {
	t.Helper()
	r.git(t, "add", "--all")
	r.git(t, "commit", "--quiet", "--allow-empty", "--message=a commit")
}

// replace edits a file, which must have the old text.
func (r repo) replace(t *testing.T, name, old, text string) {
	t.Helper()

	path := filepath.Join(r.folder, name)

	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	after := strings.ReplaceAll(string(before), old, text)
	if after == string(before) {
		t.Fatalf("%s does not have %q", name, old)
	}

	if err := os.WriteFile(path, []byte(after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// check runs hack/contracts, which must fail and say each of the texts, or succeed where there are none.
func (r repo) check(t *testing.T, texts ...string) {
	t.Helper()

	script := filepath.Join(r.folder, "hack", "contracts")

	out, err := exec.CommandContext(t.Context(), script, r.oasdiff, r.buf).CombinedOutput()
	if (err != nil) != (len(texts) > 0) {
		t.Errorf("hack/contracts ended with %v, want a failure: %t\n%s", err, len(texts) > 0, out)
	}

	for _, text := range texts {
		if !strings.Contains(string(out), text) {
			t.Errorf("hack/contracts does not say %q:\n%s", text, out)
		}
	}
}

// TestRenamedFieldsAreRefused renames a field of an OpenAPI document on main, where the base is the commit before, and
// then allows that.
func TestRenamedFieldsAreRefused(t *testing.T) {
	t.Parallel()

	r := newRepo(t, "counts", "true")
	r.check(t)

	r.replace(t, countsDocument, "currentValue", "presentValue")
	r.check(t, renamed)
	r.commit(t)
	r.check(t, renamed)

	const from = " from the response with the "

	r.replace(t, "hack/contracts.allowed", "# Changes", strings.Join([]string{
		"GET /api/v1/internal/counts removed the required property `items/currentValue`" + from + "`200` status",
		"GET /api/v1/internal/counts/{itemId} " + renamed + from + "`200` status",
		"PUT /api/v1/internal/counts/{itemId} " + renamed + from + "`200` status",
		"POST /api/v1/internal/counts " + renamed + from + "`201` status",
		"# Changes",
	}, "\n"))
	r.check(t)
}

// TestOptionalPartsAreKept renames what every caller can do without, but not every generated client: an optional field,
// a header and an operation.
func TestOptionalPartsAreKept(t *testing.T) {
	t.Parallel()

	r := newRepo(t, "counts", "true")
	r.replace(t, countsDocument, "        trace_id:", "        request_id:")
	r.replace(t, countsDocument, "            Link:", "            Next:")
	r.replace(t, countsDocument, "operationId: listCounts", "operationId: readCounts")
	r.check(t,
		"removed the optional property `trace_id`",
		"the optional response header `link` removed",
		"API operation id `listCounts` removed")
}

// TestProtobuf refuses a renamed field, and a message without a comment.
func TestProtobuf(t *testing.T) {
	t.Parallel()

	r := newRepo(t, "pyggpot", tool(t, "..", "buf"))
	r.check(t)

	r.replace(t, potProto, "int32 max_coins = 3;", "int32 most_coins = 3;")
	r.check(t, `changed name from "max_coins" to "most_coins"`)
	r.commit(t)
	r.commit(t)

	r.replace(t, potProto, "// PotListResponse is a page of pots.\n", "")
	r.check(t, `Message "PotListResponse" should have a non-empty comment`)
}

// TestBase breaks a contract some commits ago, so that only the right base shows it: for a branch the commit where it
// left main, and after a release that release, whose own base is the one before. A shallow clone fetches the rest, or
// is refused.
func TestBase(t *testing.T) {
	t.Parallel()

	r := newRepo(t, "counts", "true")
	r.git(t, "switch", "--quiet", "--create=branch")
	r.replace(t, countsDocument, "currentValue", "presentValue")
	r.commit(t)
	r.commit(t)
	r.check(t, renamed)

	r.git(t, "switch", "--quiet", "main")
	r.git(t, "merge", "--quiet", "branch")
	r.check(t) // the last commit changed nothing

	r.git(t, "tag", "v0.1.0", "HEAD~2")
	r.check(t, renamed)
	r.git(t, "tag", "v0.2.0")
	r.check(t, renamed)
	r.commit(t)
	r.check(t)

	shallow := r
	shallow.folder = t.TempDir()
	shallow.git(t, "clone", "--quiet", "--depth=2", "file://"+r.folder, ".")
	shallow.git(t, "remote", "set-url", "origin", shallow.folder+"/nowhere")
	shallow.check(t, "this clone is shallow")
	shallow.git(t, "remote", "set-url", "origin", "file://"+r.folder)
	shallow.check(t)
}
