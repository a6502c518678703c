package chart

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// metadata is the part of Chart.yaml that tests look at.
type metadata struct {
	Version     string            `json:"version"`
	Icon        string            `json:"icon"`
	Annotations map[string]string `json:"annotations"`
}

func metadataOf(t *testing.T, chart string) (m metadata) {
	t.Helper()
	text, err := run(t, helm4, "", "show", "chart", chart)
	if err == nil {
		err = yaml.Unmarshal([]byte(text), &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// images returns the images of all pods, sorted, each once.
func images(all objects) (found []string) {
	for _, c := range containers(all) {
		found = append(found, c.Image)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// annotated returns the images that a chart's annotations name, sorted.
func annotated(t *testing.T, m metadata) (found []string) {
	t.Helper()
	var list []struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	}
	if err := yaml.UnmarshalStrict([]byte(m.Annotations["helm.sh/images"]), &list); err != nil {
		t.Fatal(err)
	}
	if m.Annotations["artifacthub.io/images"] != m.Annotations["helm.sh/images"] {
		t.Errorf("artifacthub.io/images names %s", m.Annotations["artifacthub.io/images"])
	}
	for _, one := range list {
		found = append(found, one.Image)
	}
	slices.Sort(found)
	return found
}

// The chart's icon is in the repository, and Helm has nothing to recommend.
func TestMetadata(t *testing.T) {
	t.Parallel()
	const raw = "https://raw.githubusercontent.com/rowlock/rowlock/main/"
	icon, ours := strings.CutPrefix(metadataOf(t, umbrella).Icon, raw)
	if !ours || !strings.HasPrefix(read(t, "../../"+icon), "<svg ") {
		t.Errorf("the icon is %s", icon)
	}

	out, err := run(t, helm4, "", "lint", "--strict", "--kube-version="+kubernetes, umbrella)
	if err != nil || strings.Contains(out, "[") {
		t.Errorf("helm lint: %v\n%s", err, out)
	}
}

// The commands on pages that name a version name the chart's.
func TestCommandsNameTheVersion(t *testing.T) {
	t.Parallel()
	version := metadataOf(t, umbrella).Version
	names := regexp.MustCompile(`(?:IMAGE_TAG=|image\.tag=|--names |/iidy:|tags/v)(\d+\.\d+\.\d+)`)
	for _, page := range []string{"README.md", "SECURITY.md", "docs/runbook.md", "charts/rowlock/README.md"} {
		found := names.FindAllStringSubmatch(read(t, "../../"+page), -1)
		if len(found) == 0 {
			t.Errorf("%s names no version", page)
		}
		for _, name := range found {
			if name[1] != version {
				t.Errorf("%s says %q, and the chart's version is %s", page, name[0], version)
			}
		}
	}
}

// Tools that copy a chart into a network without the Internet read the annotations: they name all images of a default
// installation.
func TestAnnotationsNameTheImages(t *testing.T) {
	t.Parallel()
	got, want := annotated(t, metadataOf(t, umbrella)), images(render(t, umbrella, ""))
	if !slices.Equal(got, want) {
		t.Errorf("the annotations name %v, rendered are %v", got, want)
	}
}

// engine is a docker that builds nothing: it notes its arguments, and says that an image has the SHA-256 of its name.
const engine = `#!/usr/bin/env bash
[ "$1 $2" = "buildx build" ] || exit 0
echo "$*" >>"$CALLS"
while [ $# -gt 0 ]; do
	case $1 in -t) name=$2 ;; --metadata-file) file=$2 ;; esac
	shift
done
printf '{\n  "containerimage.digest": "sha256:%s"\n}\n' "$(printf %s "$name" | sha256sum | cut -d" " -f1)" >"$file"
`

const changelog = `# Changelog

## Unreleased

### Added: a thing that is not released

## %s - 2026-12-01

### Security: a "quoted": heading

- It wraps, [as
  prose](docs/runbook.md) does.

### For operators

## 0.0.1
`

// repository copies what a release needs into an empty folder, with a changelog for the chart's version, and
// returns a function that runs a command of hack/ there.
func repository(t *testing.T, version string) (dir string, hack func(name string, args ...string) (string, error)) {
	t.Helper()
	dir = t.TempDir()
	for _, folder := range []string{"hack", "charts/rowlock"} {
		if err := os.CopyFS(filepath.Join(dir, folder), os.DirFS("../../"+folder)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "CHANGELOG.md"), fmt.Sprintf(changelog, version))

	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(engine), 0o700); err != nil {
		t.Fatal(err)
	}

	paths, err := helms()
	if err != nil {
		t.Fatal(err)
	}
	return dir, func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "hack", name), args...)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HELM="+paths[helm4], "PUSH=ghcr.io/you",
			"SOURCE_DATE_EPOCH=", "CALLS="+filepath.Join(dir, "calls"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// A chart that is packed with the digests of pushed images runs exactly these, and says so in its annotations. The
// images are for both architectures, have an SBOM and their provenance, and bear the release's day.
func TestAPublishedChart(t *testing.T) {
	t.Parallel()
	version := metadataOf(t, umbrella).Version
	dir, hack := repository(t, version)
	if out, err := hack("images", append([]string{version}, targets.Names()...)...); err != nil {
		t.Fatalf("images: %v\n%s", err, out)
	}
	var pushed []string
	for call := range strings.Lines(read(t, filepath.Join(dir, "calls"))) {
		for _, flag := range []string{
			"--platform linux/amd64,linux/arm64", "--output type=registry,rewrite-timestamp=true", "--sbom=true",
			"--provenance=mode=max", "--build-arg CREATED=2026-12-01T00:00:00Z",
			fmt.Sprintf("--build-arg SOURCE_DATE_EPOCH=%d", released.Unix()),
		} {
			if !strings.Contains(call, flag) {
				t.Errorf("docker %s lacks %s", call, flag)
			}
		}
		_, rest, _ := strings.Cut(call, " -t ")
		name, _, _ := strings.Cut(rest, " ")
		pushed = append(pushed, fmt.Sprintf("%s@sha256:%x", name, sha256.Sum256([]byte(name))))
	}
	slices.Sort(pushed)

	if out, err := hack("release", "package", version, ".tmp/images/digests"); err != nil {
		t.Fatalf("package: %v\n%s", err, out)
	}
	file := filepath.Join(dir, ".tmp", "chart", "rowlock-"+version+".tgz")
	if got := images(render(t, file, "global: {migrations: {mode: init}}")); !slices.Equal(got, pushed) {
		t.Errorf("the chart runs\n%s\npushed are\n%s", strings.Join(got, "\n"), strings.Join(pushed, "\n"))
	}

	m := metadataOf(t, file)
	if got := annotated(t, m); !slices.Equal(got, pushed) {
		t.Errorf("the annotations name\n%s\npushed are\n%s", strings.Join(got, "\n"), strings.Join(pushed, "\n"))
	}
	const changes = "- kind: security\n  description: >-\n    a \"quoted\": heading\n"
	if got := m.Annotations["artifacthub.io/changes"]; got != changes {
		t.Errorf("the changes are\n%s\nwant\n%s", got, changes)
	}
	if got := m.Annotations["artifacthub.io/containsSecurityUpdates"]; got != "true" {
		t.Errorf("whether it has security updates: %q", got)
	}
}

// released is the day of the version in changelog.
var released = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// The same files make the same archive, byte for byte, whatever their times and the builder's rights on them are. The
// archive's own time, which `helm push` writes into the artifact, is the release's day.
func TestAPackedChartIsReproducible(t *testing.T) {
	t.Parallel()
	version := metadataOf(t, umbrella).Version
	dir, hack := repository(t, version)
	file := filepath.Join(dir, ".tmp", "chart", "rowlock-"+version+".tgz")
	pack := func() string {
		if out, err := hack("release", "package", version); err != nil {
			t.Fatalf("package: %v\n%s", err, out)
		}
		info, err := os.Stat(file)
		if err != nil || !info.ModTime().Equal(released) {
			t.Errorf("the archive bears %v: %v", info.ModTime(), err)
		}
		return read(t, file)
	}

	first := pack()
	values := filepath.Join(dir, "charts", "rowlock", "values.yaml")
	err := errors.Join(os.Chtimes(values, time.Time{}, time.Unix(1, 0)), os.Chmod(values, 0o600),
		os.Chmod(filepath.Join(dir, "charts", "rowlock", "templates"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	if second := pack(); first != second {
		t.Errorf("two archives of the same files: %x and %x", sha256.Sum256([]byte(first)), sha256.Sum256([]byte(second)))
	}
}

// A chart is not packed with a version that it does not have, without a section in the changelog, or with the digests
// of some images only.
func TestAPublishedChartIsWhole(t *testing.T) {
	t.Parallel()
	version := metadataOf(t, umbrella).Version
	dir, hack := repository(t, version)
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	one := "ghcr.io/you/rowlock/iidy:" + version + "@" + digest + "\n"
	write(t, filepath.Join(dir, "one"), one)
	write(t, filepath.Join(dir, "more"), one+"ghcr.io/you/rowlock/none:"+version+"@"+digest+"\n")
	write(t, filepath.Join(dir, "tag"), "ghcr.io/you/rowlock/iidy:"+version+"\n")
	write(t, filepath.Join(dir, "empty"), "")

	for want, args := range map[string][]string{
		"the version is 9.9.9, and the Chart.yaml files name " + version: {"9.9.9"},
		"one lacks these images":                  {version, "one"},
		"has no place for ghcr.io/you/":           {version, "more"},
		"is not registry/rowlock/name:" + version: {version, "tag"},
		"empty names no image":                    {version, "empty"},
	} {
		if out, err := hack("release", append([]string{"package"}, args...)...); err == nil || !strings.Contains(out, want) {
			t.Errorf("package %v: %v, want %q in\n%s", args, err, want, out)
		}
	}

	write(t, filepath.Join(dir, "CHANGELOG.md"), "# Changelog\n\n## Unreleased\n\n- A thing.\n")
	if out, err := hack("release", "package", version); err == nil || !strings.Contains(out, "has no section") {
		t.Errorf("package without a section in the changelog: %v\n%s", err, out)
	}
}

// The images that hack/images builds, and pushes, are those that the chart names.
func TestImagesAreWhereTheChartLooks(t *testing.T) {
	t.Parallel()
	for _, registry := range []string{"", "ghcr.io/you", "ghcr.io/you/"} {
		args := append([]string{"--names", "v1.2"}, targets.Names()...)
		build := exec.CommandContext(t.Context(), "../../hack/images", args...)
		build.Env = append(os.Environ(), "PUSH="+registry)
		out, err := build.Output()
		if err != nil {
			t.Fatal(err)
		}

		want := slices.Sorted(strings.FieldsSeq(string(out)))
		got := images(render(t, umbrella, "global: {image: {tag: v1.2, registry: '"+registry+"'}}"))
		if !slices.Equal(got, want) {
			t.Errorf("registry %q: the chart looks for %v, built are %v", registry, got, want)
		}
	}
}
