//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// settings come from hack/e2e.
type settings struct {
	// services are those to install, tag is their images'.
	services []string
	tag      string
	// client is an image with curl and a shell; postgres one of the server, pooler one of PgBouncer.
	client, postgres, pooler string
	// helms are the programs, Helm 3 first.
	helms []string
}

func fromEnvironment(t *testing.T) settings {
	t.Helper()
	get := func(name string) string {
		value := os.Getenv(name)
		if value == "" {
			t.Fatalf("%s is not set: run make e2e", name)
		}
		return value
	}
	get("KUBECONFIG")
	return settings{
		services: strings.Fields(get("E2E_SERVICES")), tag: get("E2E_TAG"), client: get("E2E_CLIENT_IMAGE"),
		postgres: get("E2E_POSTGRES_IMAGE"), pooler: get("E2E_POOLER_IMAGE"), helms: []string{get("E2E_HELM3"), get("E2E_HELM4")},
	}
}

const (
	namespace = "rowlock-e2e"
	release   = "rowlock"
	chart     = "../../charts/rowlock"
)

// T is a chapter's test. Its context ends at the chapter's limit, and with it every command: what hangs is over in time for the dump.
type T struct {
	*testing.T

	ctx context.Context //nolint:containedctx // it takes the place of the test's own
}

// Context is the test's, with the limit.
func (t *T) Context() context.Context { return t.ctx }

// command runs a program, and returns what it printed.
func command(ctx context.Context, stdin, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil { // it was killed, and not for what it did
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return out.String(), fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// kubectl runs in the namespace.
func kubectl(ctx context.Context, args ...string) (string, error) {
	return command(ctx, "", "kubectl", append([]string{"--namespace", namespace}, args...)...)
}

// must is kubectl that has to succeed.
func must(t *T, args ...string) string {
	t.Helper()
	out, err := kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func apply(t *T, manifest string) {
	t.Helper()
	if _, err := command(t.Context(), manifest, "kubectl", "--namespace", namespace, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// fetch gets objects by kubectl.
func fetch[O any](t *T, args ...string) *O {
	t.Helper()
	into := new(O)
	if err := json.Unmarshal([]byte(must(t, append([]string{"get", "-o", "json"}, args...)...)), into); err != nil {
		t.Fatal(err)
	}
	return into
}

// eventually waits for a condition, which says what is missing yet.
func eventually(t *T, limit time.Duration, condition func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline) && t.Context().Err() == nil; time.Sleep(300 * time.Millisecond) {
		if err = condition(); err == nil {
			return
		}
	}
	t.Fatalf("not within %s: %v", limit, err)
}

// wait is kubectl wait.
func wait(t *T, limit time.Duration, condition string, what ...string) {
	t.Helper()
	must(t, append([]string{"wait", "--for=" + condition, "--timeout=" + limit.String()}, what...)...)
}

// dump shows what the namespace looks like, for a failed test. (The pods of a load are gone by then: they log themselves.)
func dump(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	show := func(args ...string) {
		out, err := kubectl(ctx, args...)
		const most = 20_000
		if len(out) > most {
			out = "...\n" + out[len(out)-most:]
		}
		t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Log(err)
		}
	}
	show("get", "pods,deployments,hpa", "-o", "wide")
	show("get", "events", "--sort-by=.lastTimestamp")
	// NAME and how often it was started again.
	pods, err := kubectl(ctx, "get", "pods", "-o",
		`jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[0].restartCount}{"\n"}{end}`)
	if err != nil {
		t.Log(err)
	}
	for line := range strings.Lines(pods) {
		name, restarts, _ := strings.Cut(strings.TrimSpace(line), " ")
		show("logs", name, "--tail=40")
		if restarts != "" && restarts != "0" {
			show("logs", name, "--previous", "--tail=40")
		}
	}
	show("describe", "pods")
}
