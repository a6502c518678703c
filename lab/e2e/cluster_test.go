//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// settings holds what hack/e2e passes in the environment.
type settings struct {
	// services are installed, from images with the tag.
	services []string
	tag      string
	// next is the tag of images of a release that comes after it, with newer schemas; empty where there are none.
	next string
	// client names an image with curl and a shell, postgres one of the server, pooler one of PgBouncer.
	client, postgres, pooler string
	// token is the volume with the token by which a load calls.
	token string
	// issuerKey is the path of the key by which the cluster signs the tokens of service accounts; empty where it is not at
	// hand.
	issuerKey string
	// helms are the paths of two programs: Helm 3 and Helm 4.
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
		services: strings.Fields(get("E2E_SERVICES")), tag: get("E2E_TAG"), next: os.Getenv("E2E_NEXT"),
		client: get("E2E_CLIENT_IMAGE"), postgres: get("E2E_POSTGRES_IMAGE"), pooler: get("E2E_POOLER_IMAGE"),
		token: projected, issuerKey: os.Getenv("E2E_ISSUER_KEY"),
		helms: []string{get("E2E_HELM3"), get("E2E_HELM4")},
	}
}

const (
	release = "rowlock"
	chart   = "../../charts/rowlock"
	// ours selects the release's objects.
	ours = "app.kubernetes.io/instance=" + release
)

// place names a namespace.
type place string

// T is a chapter's test. Its context ends at the chapter's limit and ends every
// command with it, so that time is left for the dump.
type T struct {
	*testing.T
	api
	place

	ctx context.Context
}

// Context returns the test's context with the chapter's limit.
func (t *T) Context() context.Context { return t.ctx }

// command runs a program and returns what it printed.
func command(ctx context.Context, stdin, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = 5 * time.Second // children of a script that was killed may keep its output open
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil { // it was killed by the context
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return out.String(), fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, errs.String())
	}
	return out.String(), nil
}

// kubectl runs kubectl in the namespace.
func (p place) kubectl(ctx context.Context, args ...string) (string, error) {
	return command(ctx, "", "kubectl", append([]string{"--namespace", string(p)}, args...)...)
}

// run runs a program that has to succeed, and returns what it printed.
func run(t *T, stdin, program string, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), stdin, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// must is kubectl that has to succeed.
func must(t *T, args ...string) string {
	t.Helper()
	return run(t, "", "kubectl", append([]string{"--namespace", string(t.place)}, args...)...)
}

func apply(t *T, manifest string) {
	t.Helper()
	run(t, manifest, "kubectl", "--namespace", string(t.place), "apply", "-f", "-")
}

// fetch reads an object of the namespace, such as pods/postgres-0, or a list by labels. The group is such as
// /apis/apps/v1.
func fetch[O any](t *T, group, what, selector string) *O {
	t.Helper()
	into := new(O)
	if err := t.get(t.Context(), group+"/namespaces/"+string(t.place)+"/"+what, selector, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// eventually calls condition until it returns nil. Its error says what is missing.
func eventually(t *T, limit time.Duration, condition func() error) {
	t.Helper()
	var err error
	for began := time.Now(); time.Since(began) < limit && t.Context().Err() == nil; time.Sleep(300 * time.Millisecond) {
		if err = condition(); err == nil {
			return
		}
	}
	t.Fatalf("not within %s: %v", limit, err)
}

// wait runs kubectl wait.
func wait(t *T, limit time.Duration, condition string, what ...string) {
	t.Helper()
	must(t, append([]string{"wait", "--for=" + condition, "--timeout=" + limit.String()}, what...)...)
}

// dump logs the state of the namespace for a failed test. The pods of a load have
// logged themselves and are gone by then.
func (p place) dump(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()

	for _, args := range [][]string{
		{"get", "pods,deployments,hpa", "-o", "wide"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "--selector=" + ours, "--prefix", "--tail=40"},
		{
			"logs", "--selector=" + ours, "--prefix", "--tail=40", "--previous",
			"--ignore-errors",
		},
		{"describe", "pods"},
	} {
		out, err := p.kubectl(ctx, args...)
		const most = 20_000
		if len(out) > most {
			out = "...\n" + out[len(out)-most:]
		}
		t.Logf("kubectl %s\n%s%v", strings.Join(args, " "), out, err)
	}
}
