package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const changes = `# Changelog

## Unreleased

- Not this.

## 1.11.0 - unreleased

- Nor this.

## 1.10.0 - 2026-12-01

### Added: things

For operators:

- It wraps,
  twice, [as
  prose](docs/runbook.md#here) does ([elsewhere](https://example.com/a), [here](#there)).
- Another.

` + "```" + `sh
make
  run
` + "```" + `

## 1.1.0 - 2026-01-01

- Nor this.

## 1.0.0 - 2026-01-01
`

const notes = `### Added: things

For operators:

- It wraps, twice, [as prose](https://github.com/rowlock/rowlock/blob/v1.10.0/docs/runbook.md#here) does ` +
	`([elsewhere](https://example.com/a), [here](#there)).
- Another.

` + "```" + `sh
make
  run
` + "```" + `
`

// TestReleaseNotes cuts a release's notes from a changelog, and refuses to where there are none.
func TestReleaseNotes(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "hack"), os.DirFS(filepath.Join("..", "hack"))); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(changes), 0o600); err != nil {
		t.Fatal(err)
	}

	cut := func(version string) (string, error) {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "hack", "release"), "notes", version).CombinedOutput()

		return string(out), err
	}

	if got, err := cut("1.10.0"); err != nil || got != notes {
		t.Errorf("the notes are (%v)\n%s\nwant\n%s", err, got, notes)
	}

	for _, version := range []string{"1.10", "1.0.0", "2.0.0", ""} {
		if got, err := cut(version); err == nil || !strings.Contains(got, "has no section") {
			t.Errorf("the notes of %q are (%v) %s", version, err, got)
		}
	}

	if got, err := cut("1.11.0"); err == nil || !strings.Contains(got, "date its heading first") {
		t.Errorf("the notes of a version without a date are (%v) %s", err, got)
	}
}

// TestSign signs every image and the chart by its digest, or fails: nothing is published with a part of the signatures.
func TestSign(t *testing.T) {
	t.Parallel()

	const image, chart = "ghcr.io/you/rowlock/iidy", "ghcr.io/you/charts/rowlock"

	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "hack"), 0o700); err != nil {
		t.Fatal(err)
	}

	for name, text := range map[string]string{
		"hack/release": readFile(t, filepath.Join("..", "hack", "release")), "cosign": "#!/bin/sh\necho \"$*\"\n",
		"images": image + ":1.0.0@sha256:ab\n", "chart": chart + ":1.0.0@sha256:cd\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}

	sign := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "hack", "release"), "sign")
		cmd.Env = append(cmd.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.Output()

		return string(out), err
	}

	for _, digests := range []struct{ from, to string }{{"images", "digests"}, {"chart", "digest"}} {
		if out, err := sign(); err == nil {
			t.Errorf("without %s it signs %q", digests.from, out)
		}

		folder := filepath.Join(dir, ".tmp", digests.from)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}

		if err := os.Rename(filepath.Join(dir, digests.from), filepath.Join(folder, digests.to)); err != nil {
			t.Fatal(err)
		}
	}

	want := "sign --yes " + image + "@sha256:ab\nsign --yes " + chart + "@sha256:cd\n"
	if out, err := sign(); err != nil || out != want {
		t.Errorf("it signs (%v)\n%s\nwant\n%s", err, out, want)
	}
}

// TestSupportPolicy compares what SECURITY.md promises to support with the places that decide it.
func TestSupportPolicy(t *testing.T) {
	t.Parallel()

	promise := readFile(t, filepath.Join("..", "SECURITY.md"))

	for _, source := range []struct{ file, pattern, promised string }{
		{"charts/rowlock/Chart.yaml", `kubeVersion: ">=(\d+\.\d+)\.`, "Kubernetes % and newer"},
		{"charts/rowlock/charts/service/Chart.yaml", `kubeVersion: ">=(\d+\.\d+)\.`, "Kubernetes % and newer"},
		{".github/workflows/e2e.yml", `image: kindest/node:v(\d+\.\d+)\.`, "Kubernetes % and newer"},
		{"go.work", `(?m)^go (\d+\.\d+)`, "Go % and newer"},
		{"platform/localpg/find.go", `const oldest = (\d+)`, "(% works, but is no longer supported"},
		{".github/workflows/ci.yml", `major: \["(\d+)", "\d+"\]`, "PostgreSQL % to "},
		{".github/workflows/ci.yml", `major: \["\d+", "(\d+)"\]`, " to % ("},
	} {
		for _, version := range submatches(t, readFile(t, filepath.Join("..", source.file)), source.pattern) {
			if want := strings.Replace(source.promised, "%", version, 1); !strings.Contains(promise, want) {
				t.Errorf("SECURITY.md does not say %q, as %s does", want, source.file)
			}
		}
	}
}
