//go:build e2e

package e2e

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// byFile says that a service's replicas read their password from a file, and need no restart for a new one. The
// others are restarted, and a second role serves while both passwords are in use.
func byFile(service string) bool { return service == targets.Counts || service == targets.Events }

// role is the role as which a service is connected once its password was changed.
func role(service string) string {
	if byFile(service) {
		return service
	}
	return service + "_b"
}

// passwords changes the password of each service while the load goes on, as OPERATING.md of the chart says.
func (s *story) passwords(t *T) {
	t.Helper()
	began := time.Now()
	fresh := map[string]string{}
	var restart []string

	files := slices.DeleteFunc(slices.Clone(s.services), func(name string) bool { return !byFile(name) })
	s.createTwin(t, files)
	for _, row := range s.rows {
		fresh[row.Name] = rand.Text()
		secret := fmt.Sprintf(`{"stringData":{"username":%q,"password":%q}}`, role(row.Name), fresh[row.Name])
		if !byFile(row.Name) {
			s.statement(t, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE %s", role(row.Name), fresh[row.Name],
				row.Name))
			for _, workload := range row.Workloads() {
				restart = append(restart, "deployment/rowlock-"+row.Name+workload)
			}
		}
		must(t, "patch", "secret", "rowlock-"+row.Name+"-db", "--patch", secret)
	}

	if len(restart) > 0 {
		must(t, append([]string{"rollout", "restart"}, restart...)...)
	}
	s.wantFiles(t, files, fresh)
	for _, service := range files {
		s.statement(t, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", service, fresh[service]))
	}

	rolledOut(t)
	s.wantGone(t)
	for _, row := range s.rows {
		if !byFile(row.Name) {
			s.statement(t, "ALTER ROLE "+row.Name+" NOLOGIN")
		}
	}
	t.Logf("all passwords are new after %.0f s", time.Since(began).Seconds())
}

// createTwin creates a pod that mounts the passwords of services, as their replicas do, and has a shell, which their
// images have not.
func (s *story) createTwin(t *T, names []string) {
	t.Helper()
	var sources []string
	for _, name := range names {
		sources = append(sources,
			fmt.Sprintf("{secret: {name: rowlock-%s-db, items: [{key: password, path: %s}]}}", name, name))
	}
	apply(t, pod(caller, "projected: {sources: ["+strings.Join(sources, ", ")+"]}", "twin",
		fmt.Sprintf(`image: %s, command: [sleep, "86400"]`, s.client)))
	wait(t, time.Minute, "condition=Ready", "pod/twin")
}

// wantFiles waits until the twin has the new passwords. The kubelet looks at the replicas' volumes first.
func (s *story) wantFiles(t *T, names []string, fresh map[string]string) {
	t.Helper()
	var pods []string
	for _, pod := range s.pods(t, names...) {
		pods = append(pods, pod.Name)
	}
	eventually(t, time.Minute, func() error {
		hurry(t, append(pods, "twin")...)
		for _, name := range names {
			if got := must(t, "exec", "twin", "--", "cat", "/var/run/secrets/rowlock/"+name); got != fresh[name] {
				return fmt.Errorf("the file of %s is the old one", name)
			}
		}
		return nil
	})
	must(t, "delete", "pod", "twin", "--wait=false")
}

// newSessions ends all sessions of the services, without a load, and demands that the replicas begin new ones by the
// passwords that hold now.
func (s *story) newSessions(t *T) {
	t.Helper()
	s.statement(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND usename <> current_user`)
	s.works(t, s.helms[1])
	s.wantSteady(t)
}

// statement runs a statement as the database's administrator.
func (s *story) statement(t *T, text string) {
	t.Helper()
	if _, err := s.query(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// inOrder returns the roles as which the services are connected once the passwords were changed.
func (s *story) inOrder() []string {
	roles := make([]string, 0, len(s.rows))
	for _, row := range s.rows {
		roles = append(roles, role(row.Name))
	}
	return slices.Sorted(slices.Values(roles))
}

// limit gives each runtime role the CONNECTION LIMIT that the chart's notes name. The
// rest of the story, in which services scale and roll out under load, has to do with it.
func (s *story) limit(t *T, notes string) {
	t.Helper()
	_, line, _ := strings.Cut(notes, "runtime role that fits: ")
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	if len(words) != 2*len(s.rows) {
		t.Fatalf("the notes name the limits %q", line)
	}
	var alter strings.Builder
	for i := 0; i < len(words); i += 2 {
		_, _ = fmt.Fprintf(&alter, "ALTER ROLE %s CONNECTION LIMIT %s;", words[i], words[i+1])
	}
	s.statement(t, alter.String())
}

// roles demands that all services are connected as their runtime roles and by TLS. (lab/internal/local tests what the
// roles may do, and lab/chart that no replica has an owner's secret.)
func (s *story) roles(t *T) {
	out, err := s.query(t.Context(), `SELECT string_agg(DISTINCT usename, ' ' ORDER BY usename), bool_and(ssl)
		FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE client_addr IS NOT NULL`)
	want := strings.Join(s.inOrder(), " ") + "|t"
	if err != nil || strings.TrimSpace(out) != want {
		t.Errorf("connected, by TLS: %s, %v, want %s", out, err, want)
	}
	owned, err := s.query(t.Context(), `SELECT string_agg(DISTINCT tableowner, ' ' ORDER BY tableowner) FROM pg_tables
		WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	owners := strings.Join(slices.Sorted(slices.Values(s.services)), "_owner ") + "_owner"
	if err != nil || strings.TrimSpace(owned) != owners {
		t.Errorf("the tables' owners: %s, %v", owned, err)
	}
}
