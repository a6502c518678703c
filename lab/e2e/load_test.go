//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/lab/internal/workload"
)

// load is a pod that keeps a service busy until it is stopped.
type load struct {
	name   string
	stdin  io.Closer
	attach *exec.Cmd
}

// restricted is the security of our own pods.
const restricted = `{runAsNonRoot: true, runAsUser: 65532, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true,
        capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}`

// create makes the pod of a load.
func create(t *T, s settings, service string, rate, clients int) *load {
	t.Helper()
	l := &load{name: fmt.Sprintf("load-%s-%d", service, time.Now().UnixMilli()%1e7)}
	internal := ""
	if service == "counts" {
		internal = ", http://rowlock-counts-internal:8081"
	}
	apply(t, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: load}}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 2
  containers:
    - name: load
      image: rowlock/lab:%s
      stdin: true
      stdinOnce: true
      args: [drive, --rate=%d, --clients=%d, %s, http://rowlock-%s%s]
      securityContext: %s
      resources: {requests: {cpu: 50m, memory: 32Mi}}
`, l.name, s.tag, rate, clients, service, service, internal, restricted))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		if t.Failed() {
			log, err := kubectl(ctx, "logs", l.name, "--tail=40")
			t.Logf("%s: %s %v", l.name, log, err)
		}
		_, _ = kubectl(ctx, "delete", "pod", l.name, "--ignore-not-found", "--now", "--wait=false")
	})
	return l
}

// begin waits until the load is there, and takes hold of its input, whose end will end it.
func (l *load) begin(t *T) {
	t.Helper()
	wait(t, time.Minute, "condition=Ready", "pod/"+l.name)
	l.attach = exec.CommandContext(t.Context(), "kubectl", "--namespace", namespace, "attach", "--stdin", "--quiet", l.name)
	stdin, err := l.attach.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.stdin = stdin
	if err := l.attach.Start(); err != nil {
		t.Fatal(err)
	}
}

// report waits for a load that was told to end.
func (l *load) report(t *T) *workload.Report {
	t.Helper()
	// How kubectl attach ends says nothing; the pod's log does. It may also hang, when the pod ended while nobody listened.
	giveUp := time.AfterFunc(30*time.Second, func() { _ = l.attach.Process.Kill() })
	_ = l.attach.Wait()
	giveUp.Stop()
	eventually(t, 90*time.Second, func() error {
		if phase := fetch[core.Pod](t, "pod", l.name).Status.Phase; phase != core.PodSucceeded && phase != core.PodFailed {
			return fmt.Errorf("the pod %s is %s", l.name, phase)
		}
		return nil
	})
	log := must(t, "logs", l.name)
	report := new(workload.Report)
	if err := json.Unmarshal([]byte(log), report); err != nil {
		t.Fatalf("%s: %v\n%s", l.name, err, log)
	}
	t.Logf("load: %s", strings.TrimSpace(log))
	return report
}

// flawless is for what must lose nothing.
func flawless(r *workload.Report, least int) error {
	switch {
	case r.Fault != "":
		return fmt.Errorf("%s: %s", r.Service, r.Fault)
	case r.Failed() > 0 || r.Stored != r.Acknowledged:
		return fmt.Errorf("%s: %d requests failed, %d were acknowledged and %d are stored", r.Service, r.Failed(), r.Acknowledged, r.Stored)
	case r.Acknowledged < least:
		return fmt.Errorf("%s: only %d requests were made, %d are wanted for it to mean something", r.Service, r.Acknowledged, least)
	}
	return nil
}

// startLoads puts services under load, and returns when it has begun everywhere.
func startLoads(t *T, s settings, rate, clients int, services ...string) (all []*load) {
	t.Helper()
	for _, name := range services {
		all = append(all, create(t, s, name, rate, clients))
	}
	for _, l := range all {
		l.begin(t)
	}
	return all
}

// stopLoads ends them all, and returns what came of them.
func stopLoads(t *T, all []*load) (reports []*workload.Report) {
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

func wantFlawless(t *T, reports []*workload.Report, least int) {
	t.Helper()
	var errs []error
	for _, r := range reports {
		errs = append(errs, flawless(r, least))
	}
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}
