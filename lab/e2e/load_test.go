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

	"github.com/rowlock/rowlock/lab/internal/services"
)

// load is a pod that runs `rowlock drive` until it is stopped.
type load struct {
	name   string
	stdin  io.Closer
	attach *exec.Cmd
}

// restricted is the security context of the tests' own pods.
const restricted = `{runAsNonRoot: true, runAsUser: 65532, allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}`

// createPod creates a pod of one restricted container, with these fields. It has the label of a caller, and the token
// of one that may do everything.
func createPod(t *T, name, container string) {
	t.Helper()
	createPodOf(t, caller, projected, name, container)
}

// createPodOf creates such a pod of another account, with its token out of another volume.
func createPodOf(t *T, account, token, name, container string) {
	t.Helper()
	apply(t, fmt.Sprintf(`
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
`, name, account, restricted, container, token))
}

// create creates the pod of a load.
func create(t *T, s settings, service string, rate, clients int) *load {
	t.Helper()
	l := &load{name: fmt.Sprintf("load-%s-%d", service, time.Now().UnixMilli()%1e7)}
	addresses := "http://rowlock-" + service
	if service == services.Counts {
		addresses += ", http://rowlock-counts-internal:8081"
	}
	createPodOf(t, caller, s.token, l.name, fmt.Sprintf(`image: rowlock/lab:%s, stdin: true, stdinOnce: true,
        args: [drive, --token-file=/var/run/secrets/rowlock/token, --rate=%d, --clients=%d, %s, %s],
        resources: {requests: {cpu: 10m, memory: 32Mi}}`, s.tag, rate, clients, service, addresses))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		if t.Failed() {
			log, err := t.kubectl(ctx, "logs", l.name, "--tail=40")
			t.Logf("%s: %s %v", l.name, log, err)
		}
		_, _ = t.kubectl(ctx, "delete", "pod", l.name, "--ignore-not-found", "--now", "--wait=false")
	})
	return l
}

// begin waits until the load runs, and attaches its standard input, whose end will end it.
func (l *load) begin(t *T) {
	t.Helper()
	wait(t, time.Minute, "condition=Ready", "pod/"+l.name)
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

// report waits for the end of a load whose input was closed, and returns its report.
func (l *load) report(t *T) *services.Report {
	t.Helper()
	// The result is in the pod's log. kubectl attach may hang when the pod ended before it was attached.
	giveUp := time.AfterFunc(30*time.Second, func() { _ = l.attach.Process.Kill() })
	_ = l.attach.Wait()
	giveUp.Stop()
	eventually(t, 90*time.Second, func() error {
		if phase := fetch[core.Pod](t, "/api/v1", "pods/"+l.name, "").Status.Phase; phase != core.PodSucceeded && phase != core.PodFailed {
			return fmt.Errorf("the pod %s is %s", l.name, phase)
		}
		return nil
	})
	log := must(t, "logs", l.name)
	report := new(services.Report)
	if err := json.Unmarshal([]byte(log), report); err != nil {
		t.Fatalf("%s: %v\n%s", l.name, err, log)
	}
	t.Logf("load: %s", strings.TrimSpace(log))
	return report
}

// startLoads starts a load on each of the services named, and returns when all run.
func startLoads(t *T, s settings, rate, clients int, names ...string) (all []*load) {
	t.Helper()
	for _, name := range names {
		all = append(all, create(t, s, name, rate, clients))
	}
	for _, l := range all {
		l.begin(t)
	}
	return all
}

// stopLoads ends the loads and returns their reports.
func stopLoads(t *T, all []*load) (reports []*services.Report) {
	t.Helper()
	for _, l := range all {
		if err := l.stdin.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range all {
		reports = append(reports, l.report(t))
	}
	return reports
}

// wantFlawless demands that every request was acknowledged and is stored, at least so many.
func wantFlawless(t *T, reports []*services.Report, least int) {
	t.Helper()
	for _, r := range reports {
		if r.Fault != "" || r.Failed() > 0 || r.Stored != r.Acknowledged || r.Acknowledged < least {
			t.Errorf("the load of %s met %+v, want no failure and at least %d requests", r.Service, r, least)
		}
	}
}
