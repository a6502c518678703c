//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/lab/internal/tour"
)

// followed runs the commands of "Install" in the chart's README, in their order and nothing else, from an empty cluster
// to helm test, on a PostgreSQL as it ships. What differs here is put in: the namespace and its pod security, the image
// of PostgreSQL, and the tag of images that no release has published.
func (s *story) followed(t *T) {
	defer close(s.installed)
	root := s.clone(t)

	_, section, _ := strings.Cut(read(t, chart+"/README.md"), "\n## Install\n")
	section, _, _ = strings.Cut(section, "\n## ")
	script := strings.Join(tour.Blocks(section, "sh"), "\n")
	const creates = "kubectl create namespace rowlock\n"
	if !strings.Contains(script, creates) || !strings.Contains(script, "\nhelm test rowlock") {
		t.Fatalf("the README does not go from a namespace to helm test:\n%s", script)
	}

	script = strings.Replace(script, creates, "kubectl apply -f - <<'END'\n"+s.restrict()+"\nEND\n", 1)
	script = regexp.MustCompile(`(--namespace[ =])rowlock\b`).ReplaceAllString(script, "${1}"+string(s.place))
	write(t, filepath.Join(root, "install.sh"), script)

	// Its own kubeconfig, because the commands may set its namespace, and Helm 3 as helm.
	write(t, filepath.Join(root, "kubeconfig"), read(t, os.Getenv("KUBECONFIG")))
	if err := os.Mkdir(filepath.Join(root, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.helms[0], filepath.Join(root, "bin", "helm")); err != nil {
		t.Fatal(err)
	}

	began := time.Now()
	out := run(t, "", "env", "-C", root, "KUBECONFIG="+filepath.Join(root, "kubeconfig"),
		"PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"), "bash", "-euo", "pipefail", "install.sh")
	t.Logf("from an empty cluster to helm test in %.0f s", time.Since(began).Seconds())
	if !strings.Contains(out, "Succeeded") {
		t.Errorf("helm test says\n%s", out)
	}
	s.readNotes(t, out)
}

// settled prepares what the next chapters need, until the README's release has come to rest.
func (s *story) settled(t *T) {
	// The namespace refuses a pod that is not restricted.
	if out, err := t.kubectl(t.Context(), "run", "root", "--image="+s.client); err == nil {
		t.Errorf("a pod that is not restricted is admitted: %s", out)
	}
	most, err := s.query(t.Context(), "SHOW max_connections")
	if strings.TrimSpace(most) != "100" {
		t.Errorf("max_connections is %s (%v), and 100 is PostgreSQL's default", most, err)
	}
	// From here on the services' roles have what roles.psql grants, and nothing that everyone has.
	revoke := "REVOKE ALL ON DATABASE rowlock FROM PUBLIC; REVOKE ALL ON SCHEMA public FROM PUBLIC"
	if _, err := s.query(t.Context(), revoke); err != nil {
		t.Error(err)
	}
	s.createAccounts(t)
	shell := fmt.Sprintf(`image: %s, command: [sleep, "86400"]`, s.client)
	apply(t, pod(caller, projected, "client", shell))
	s.defineOperator(t)
	wait(t, time.Minute, "condition=Ready", "pod/client")

	// The autoscalers need two readings of the metrics-server.
	wait(t, time.Minute, "condition=ScalingActive", "hpa", "--all")
	hpas := must(t, "get", "hpa")
	t.Logf("the autoscalers of the README's release:\n%s", hpas)
	if strings.Contains(hpas, "<unknown>") || strings.Count(hpas, "/500m") != len(s.rows)+1 {
		t.Errorf("of the services and events' workers, not all autoscalers have figures:\n%s", hpas)
	}
	wait(t, time.Minute, "condition=Ready", "pods", "--selector="+ours+","+component+" in (serve,work)")
	s.wantSteady(t)
}

// wantSoon waits until a chapter of another story is over.
func wantSoon(t *T, over <-chan struct{}) {
	t.Helper()
	select {
	case <-over:
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
}

// clone copies what the README's commands use of this repository, with the images that there are.
func (s *story) clone(t *T) string {
	t.Helper()
	root := t.TempDir()
	run(t, "", "cp", "-R", "../../charts", "../../k8s", root)
	version := [2]string{`(?m)^appVersion: .*$`, `appVersion: "` + s.tag + `"`}

	for file, replace := range map[string][2]string{
		"k8s/postgres.yaml":                        {postgresImage, "image: " + s.postgres},
		"k8s/values.yaml":                          {"system:serviceaccount:rowlock:", s.subject("")},
		"charts/rowlock/Chart.yaml":                version,
		"charts/rowlock/charts/service/Chart.yaml": version,
	} {
		file = filepath.Join(root, file)
		text, expression := read(t, file), regexp.MustCompile(replace[0])
		if !expression.MatchString(text) {
			t.Fatalf("%s has no %s", file, replace[0])
		}
		write(t, file, expression.ReplaceAllLiteralString(text, replace[1]))
	}
	return root
}

func read(t *T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// withToken makes curl send the pod's token.
const withToken = `curl() { command curl --header "Authorization: Bearer $(cat /var/run/secrets/rowlock/token)" "$@"; }
`

// tours runs the tours of the services' READMEs at once in another pod, where the Services have names, with a token. It
// compares what they print with the pages where the database is new, because some tell ids.
func (s *story) tours(t *T, isNew bool) {
	t.Helper()
	var all sync.WaitGroup
	for _, row := range s.rows {
		all.Go(func() {
			page, err := tour.Read("../..", row, "http://rowlock-"+row.Name, "http://rowlock-"+row.Name+"-internal:8081")
			out := ""
			if err == nil {
				out, err = t.kubectl(t.Context(), "exec", "client", "--", "sh", "-c", withToken+page.Script())
			}
			if err == nil && isNew {
				err = page.Compare(out)
			}
			if err != nil {
				t.Errorf("%s: %v", row.Name, err)
			}
		})
	}
	all.Wait()
}
