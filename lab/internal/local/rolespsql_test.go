package local

import (
	"crypto/rand"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
)

// secretsOf runs k8s/roles.sh for a service with more arguments of psql, and returns the secrets that it prints.
func secretsOf(t *testing.T, admin, service, more string) map[string]map[string]string {
	t.Helper()
	script := exec.CommandContext(t.Context(), "../../../k8s/roles.sh", service)
	script.Env = append(os.Environ(), "PSQL=psql "+admin+more, "HOST=db.example", "PORT=6000", "DBNAME=shop")
	out, err := script.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	secrets := map[string]map[string]string{}
	for _, document := range strings.Split(string(out), "---\n")[1:] {
		var secret struct {
			Metadata   struct{ Name string }
			StringData map[string]string `yaml:"stringData"`
		}
		if err := yaml.Unmarshal([]byte(document), &secret); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		data := secret.StringData
		if address := data["host"] + data["port"] + data["dbname"]; address != "db.example6000shop" {
			t.Errorf("%s has the address %s", secret.Metadata.Name, address)
		}
		secrets[secret.Metadata.Name] = data
	}
	return secrets
}

// k8s/roles.sh makes, by roles.psql, a runtime role with DML alone, on tables that were there and on those of later
// migrations, and prints secrets by which the roles connect. Where the runtime role owned everything, the owner takes
// it over. Run again it makes new passwords, and keeps the limit of a role.
func TestRolesOfACluster(t *testing.T) {
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
	for _, q := range []string{ // the one role of a release before there were two
		`CREATE ROLE ` + service + ` LOGIN`, `CREATE SCHEMA ` + service + ` AUTHORIZATION ` + service, `SET ROLE ` + service +
			`; CREATE TABLE ` + service + `.goose_db_version (id int); CREATE TABLE ` + service +
			`.old (n serial, v int); RESET ROLE`,
	} {
		if err := execute(db, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	t.Cleanup(func() { dropRoles(t, admin, service+"_owner", service) })

	urls := func(secrets map[string]map[string]string) (app, owner string) {
		u, err := url.Parse(admin)
		if err != nil {
			t.Fatal(err)
		}
		runtime, owning := secrets["rowlock-"+service+"-db"], secrets["rowlock-"+service+"-db-owner"]
		u.User = url.UserPassword(runtime["username"], runtime["password"])
		app = u.String()
		u.User = url.UserPassword(owning["username"], owning["password"])
		return app, u.String()
	}
	oldApp, oldOwner := urls(secretsOf(t, admin, service, " --set=connections=30"))
	app, owner := urls(secretsOf(t, admin, service, ""))
	for _, old := range []string{oldApp, oldOwner} {
		if got := state(execute(dbtest.Dial(t, old), "SELECT")); got != "28P01" {
			t.Errorf("with an old password: %s", got)
		}
	}
	later := `CREATE TABLE ` + service + `.new (id int GENERATED ALWAYS AS IDENTITY, n serial, v int)`
	if err := execute(dbtest.Dial(t, owner), later); err != nil {
		t.Fatal(err)
	}
	wantRights(t, Schema{Name: service}, app, owner, "old", "new") // whose app role has another name

	for role, want := range map[string]int{service: 30, service + "_owner": 8} {
		var limit int
		err := db.GetContext(t.Context(), &limit, `SELECT rolconnlimit FROM pg_roles WHERE rolname = $1`, role)
		if err != nil || limit != want {
			t.Errorf("%s may open %d connections, want %d: %v", role, limit, want, err)
		}
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
