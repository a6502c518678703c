//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// load is a pod that runs `rowlock drive` until it is stopped.
type load struct {
	name, manifest string
	stdin          io.Closer
	attach         *exec.Cmd
}

// restricted is the security context of the tests' own pods.
const restricted = `{runAsNonRoot: true, runAsUser: 65532, allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}`

// pod returns the manifest of a pod of one restricted container, with these fields. It has the label of a caller, and
// the token of an account out of a volume.
func pod(account, token, name, container string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {rowlock.dev/client: "true"}}
spec:
  restartPolicy: Never
  serviceAccountName: %s
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  containers:
    - {name: main, volumeMounts: [{name: token, mountPath: /var/run/secrets/rowlock}, {name: tmp, mountPath: /tmp}],
       securityContext: %s, %s}
  volumes: [{name: tmp, emptyDir: {}}, {name: token, %s}]
`, name, account, restricted, container, token)
}

// newLoad returns a load on a service that has not begun.
func newLoad(s settings, service string, rate, clients int) *load {
	name := fmt.Sprintf("load-%s-%d", service, time.Now().UnixMilli()%1e7)
	addresses := "http://rowlock-" + service
	if service == targets.Counts {
		addresses += ", http://rowlock-counts-internal:8081"
	}
	return &load{name: name, manifest: pod(caller, s.token, name, fmt.Sprintf(`image: rowlock/lab:%s,
        stdin: true, stdinOnce: true, resources: {requests: {cpu: 10m, memory: 32Mi}},
        args: [drive, --token-file=/var/run/secrets/rowlock/token, --rate=%d, --clients=%d, %s, %s]`,
		s.tag, rate, clients, service, addresses))}
}

// begin creates the pods of loads, attaches their standard inputs, whose end will end them, and waits until all have
// begun.
func begin(t *T, all []*load) {
	t.Helper()
	var manifests strings.Builder
	var pods []string
	for _, l := range all {
		manifests.WriteString(l.manifest)
		pods = append(pods, "pod/"+l.name)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		for _, name := range pods {
			if t.Failed() {
				log, err := t.kubectl(ctx, "logs", name, "--tail=40")
				t.Logf("%s: %s %v", name, log, err)
			}
		}
		_, _ = t.kubectl(ctx, append([]string{"delete", "--ignore-not-found", "--now", "--wait=false"}, pods...)...)
	})
	apply(t, manifests.String())
	wait(t, time.Minute, "condition=Ready", pods...)

	for _, l := range all {
		l.attach = exec.CommandContext(t.Context(), "kubectl", "--namespace", string(t.place), "attach", "--stdin",
			"--quiet", l.name)
		stdin, err := l.attach.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		l.stdin = stdin
		if err := l.attach.Start(); err != nil {
			t.Fatal(err)
		}
	}

	// A pod is ready before its load has prepared what it will change.
	for _, l := range all {
		eventually(t, time.Minute, func() error {
			log, err := t.kubectl(t.Context(), "logs", l.name)
			if err == nil && !strings.Contains(log, "begins") {
				return fmt.Errorf("%s has not begun: %s", l.name, log)
			}
			return err
		})
	}
}

// startLoads starts a load on each of the services named, and returns when all run.
func startLoads(t *T, s settings, rate, clients int, names ...string) (all []*load) {
	t.Helper()
	for _, name := range names {
		all = append(all, newLoad(s, name, rate, clients))
	}
	begin(t, all)
	return all
}

// end closes the loads' inputs. They compare then what is stored.
func end(all []*load) {
	for _, l := range all {
		_ = l.stdin.Close() // it may be closed already
	}
}

// report waits for the end of a load whose input was closed, and returns its report.
func (l *load) report(t *T) *targets.Report {
	t.Helper()
	// The result is in the pod's log. kubectl attach may hang when the pod ended before it was attached.
	giveUp := time.AfterFunc(30*time.Second, func() { _ = l.attach.Process.Kill() })
	_ = l.attach.Wait()
	giveUp.Stop()

	eventually(t, 90*time.Second, func() error {
		phase := fetch[core.Pod](t, "/api/v1", "pods/"+l.name, "").Status.Phase
		if phase != core.PodSucceeded && phase != core.PodFailed {
			return fmt.Errorf("the pod %s is %s", l.name, phase)
		}
		return nil
	})

	log := must(t, "logs", l.name)
	last := log[strings.LastIndex(strings.TrimSpace(log), "\n")+1:]
	report := new(targets.Report)
	if err := json.Unmarshal([]byte(last), report); err != nil {
		t.Fatalf("%s: %v\n%s", l.name, err, log)
	}
	t.Logf("load: %s", strings.TrimSpace(last))
	return report
}

// stopLoads ends the loads and returns their reports.
func stopLoads(t *T, all []*load) (reports []*targets.Report) {
	t.Helper()
	end(all)
	for _, l := range all {
		reports = append(reports, l.report(t))
	}
	return reports
}

// wantFlawless demands that every request was acknowledged and is stored, at least so many.
func wantFlawless(t *T, reports []*targets.Report, least int) {
	t.Helper()
	for _, r := range reports {
		if r.Fault != "" || r.Failed() > 0 || r.Stored != r.Acknowledged || r.Acknowledged < least {
			t.Errorf("the load of %s met %+v, want no failure and at least %d requests", r.Service, r, least)
		}
	}
}
