package local

import (
	"crypto/rand"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lib/pq"
	"go.yaml.in/yaml/v3"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// k8s/roles.psql makes a runtime role with DML alone, on tables that were there and on those of later migrations, each
// with a limit of its own. Where the runtime role owned everything, the owner takes it over. It can run again.
func TestRolesOfACluster(t *testing.T) {
	t.Parallel()
	psql, err := exec.LookPath("psql")
	if err != nil {
		if config.Environ()["CI"] != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	admin := dbtest.Empty(t)
	// The one role of a release before there were two.
	service := `it's "` + strings.ToLower(rand.Text()[:8])
	role := pq.QuoteIdentifier(service)
	db := dbtest.Dial(t, admin)
	for _, q := range []string{
		`CREATE ROLE ` + role + ` LOGIN`, `CREATE SCHEMA ` + role + ` AUTHORIZATION ` + role, `SET ROLE ` + role +
			`; CREATE TABLE ` + role + `.goose_db_version (id int); CREATE TABLE ` + role + `.old (n serial, v int); RESET ROLE`,
	} {
		if err := execute(db, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	t.Cleanup(func() { dropRoles(t, admin, service+"_owner", service) })
	for range 2 {
		out, err := exec.CommandContext(t.Context(), psql, admin, "--no-psqlrc", "--set=service="+service,
			"--set=connections=30", "--set=password=it's", "--set=owner_password=that's",
			"--file=../../../k8s/roles.psql").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	connect := func(user, password string) string {
		u, err := url.Parse(admin)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(user, password)
		return u.String()
	}
	ownerURL := connect(service+"_owner", "that's")
	later := `CREATE TABLE ` + role + `.new (id int GENERATED ALWAYS AS IDENTITY, n serial, v int)`
	if err := execute(dbtest.Dial(t, ownerURL), later); err != nil {
		t.Fatal(err)
	}
	schema := Schema{Name: service} // whose app role has another name
	wantRights(t, schema, connect(service, "it's"), ownerURL, "old", "new")

	var runtime, owning int
	const limits = `SELECT max(rolconnlimit) FILTER (WHERE rolname = $1), max(rolconnlimit) FILTER (WHERE rolname = $2)
		FROM pg_roles`
	if err := db.QueryRowContext(t.Context(), limits, service, service+"_owner").Scan(&runtime, &owning); err != nil ||
		runtime != 30 || owning != 8 {
		t.Errorf("limits of %d and %d connections, %v", runtime, owning, err)
	}
}

// When a service fails, k8s/roles.sh has printed the secrets of those before it, whose passwords are new already.
func TestSecretsBeforeAFailure(t *testing.T) {
	t.Parallel()
	fails := filepath.Join(t.TempDir(), "psql")
	if err := os.WriteFile(fails, []byte("#!/bin/sh\n! grep \"service 'iidy'\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := exec.CommandContext(t.Context(), "../../../k8s/roles.sh", "counts", "iidy")
	script.Env = append(os.Environ(), "PSQL="+fails)
	out, err := script.Output()
	if err == nil || strings.Count(string(out), "name: rowlock-counts-db") != 2 || strings.Contains(string(out), "iidy") {
		t.Errorf("it ends with %v and prints\n%s", err, out)
	}
}

// k8s/roles.sh makes the roles of services by it, and prints secrets with which one connects. Run again it makes new
// passwords, and keeps the limit of a role.
func TestSecretsOfACluster(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		if config.Environ()["CI"] != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	admin := dbtest.Empty(t)
	db := dbtest.Dial(t, admin)
	service := "s" + strings.ToLower(rand.Text()[:8])
	t.Cleanup(func() { dropRoles(t, admin, service+"_owner", service) })
	connect := func(data map[string]string) error {
		u, err := url.Parse(admin)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(data["username"], data["password"])
		return execute(dbtest.Dial(t, u.String()), "SELECT")
	}
	before := map[string]map[string]string{}
	for again := range 2 {
		script := exec.CommandContext(t.Context(), "../../../k8s/roles.sh", service)
		script.Env = append(os.Environ(), "PSQL=psql "+admin, "HOST=db.example", "PORT=6000", "DBNAME=shop")
		out, err := script.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for document := range strings.SplitSeq(string(out), "---\n") {
			if document == "" {
				continue
			}
			var secret struct {
				Metadata   struct{ Name string }
				StringData map[string]string `yaml:"stringData"`
			}
			if err := yaml.Unmarshal([]byte(document), &secret); err != nil {
				t.Fatalf("%v in\n%s", err, document)
			}
			name, data := secret.Metadata.Name, secret.StringData
			if before[name]["password"] == data["password"] || data["host"]+data["port"]+data["dbname"] != "db.example6000shop" {
				t.Errorf("%s has %v", name, data)
			}
			if err := connect(data); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if old := before[name]; old != nil && state(connect(old)) != "28P01" {
				t.Errorf("the old password of %s still holds", name)
			}
			before[name] = data
		}
		secret := "rowlock-" + service + "-db"
		if before[secret]["username"] != service || before[secret+"-owner"]["username"] != service+"_owner" {
			t.Fatalf("it prints the secrets %v", before)
		}
		if again == 0 {
			if err := execute(db, "ALTER ROLE "+service+" CONNECTION LIMIT 7"); err != nil {
				t.Fatal(err)
			}
		}
	}
	var limit int
	const query = "SELECT rolconnlimit FROM pg_roles WHERE rolname = $1"
	if err := db.GetContext(t.Context(), &limit, query, service); err != nil || limit != 7 {
		t.Errorf("a limit of %d connections, %v", limit, err)
	}
}
