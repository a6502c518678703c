package acceptance

import (
	"context"
	"fmt"
	"maps"
	"net"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rowlock/rowlock/lab/internal/local"
	"github.com/rowlock/rowlock/lab/internal/local/localtest"
	"github.com/rowlock/rowlock/lab/internal/targets"
	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/platform/localpg/guard"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// composed is what the tests read of compose.yaml.
type composed struct {
	Services map[string]container
	Volumes  map[string]any
}

type container struct {
	Image       string
	PullPolicy  string `yaml:"pull_policy"`
	Build       struct{ Args map[string]string }
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
	SecurityOpt []string `yaml:"security_opt"`
	MemLimit    string   `yaml:"mem_limit"`
	Healthcheck struct{ Test []string }
	Deploy      struct{ Replicas int }
	StopGrace   time.Duration `yaml:"stop_grace_period"`
}

func readCompose(t *testing.T) (file composed) {
	t.Helper()
	if err := yaml.Unmarshal(readRoot(t, "compose.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	return file
}

// readRoot reads a file of the repository.
func readRoot(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// nameIn returns the name in compose.yaml of the containers that run a service's command.
func nameIn(s targets.Service, command string) string {
	return strings.TrimSuffix(s.Name+"-"+command, "-serve")
}

// No container of compose.yaml can do more than it must, and no other machine reaches one. What it mounts is there.
func TestComposeIsClosed(t *testing.T) {
	t.Parallel()
	file := readCompose(t)
	for name, c := range file.Services {
		got := fmt.Sprint(c.ReadOnly, c.CapDrop, c.SecurityOpt)
		if want := "true [ALL] [no-new-privileges:true]"; got != want || c.MemLimit == "" {
			t.Errorf("%s is confined by %s and %q of memory, want %s and a limit", name, got, c.MemLimit, want)
		}
		for _, port := range c.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s, want an address of 127.0.0.1", name, port)
			}
		}
		for _, mount := range c.Volumes {
			source, _, _ := strings.Cut(mount, ":")
			_, named := file.Volumes[source]
			if _, err := os.Stat(filepath.Join(root, source)); err != nil && !named {
				t.Errorf("%s mounts %s: %v", name, source, err)
			}
		}
	}
}

// compose.yaml runs every command of every service, from the service's image, with variables that the service has. Two
// replicas of each have time to stop, and tell whether they are ready.
func TestComposeRunsTheServices(t *testing.T) {
	t.Parallel()
	services := readCompose(t).Services
	for _, s := range targets.All() {
		help := shell(t, localtest.Binary(t, s.Name)+" --help")
		for _, command := range append(s.Commands(), "migrate") {
			name := nameIn(s, command)
			c := services[name]
			build := "map[] and never"
			if command == "migrate" {
				build = "map[SERVICE:" + s.Name + "] and build"
			}
			got := fmt.Sprintf("%s of %s and %s with %s", c.Image, c.Build.Args, c.PullPolicy, c.Command)
			want := fmt.Sprintf("%s:devel of %s with [%s]", s.Image, build, command)
			if got != strings.Replace(want, "[serve]", "[]", 1) { // the default
				t.Errorf("%s runs %s, want %s", name, got, want)
			}
			for variable := range c.Environment {
				if !strings.Contains(help, "\n  "+variable+" ") {
					t.Errorf("%s sets %s, which %s does not have", name, variable, s.Name)
				}
			}

			if command == "migrate" {
				continue
			}
			got = fmt.Sprint(c.Deploy.Replicas, c.Healthcheck.Test)
			if want := "2 [CMD /service healthcheck]"; got != want {
				t.Errorf("%s has replicas and healthcheck %s, want %s", name, got, want)
			}
			cfg := apptest.Config[config.Common](t, c.Environment["DATABASE_URL"])
			if stop := cfg.StopTimeout(); c.StopGrace <= stop {
				t.Errorf("%s has %s to stop, want more than %s", name, c.StopGrace, stop)
			}
		}
	}
}

// The READMEs' tours work with the roles, the variables and the balancer of compose.yaml, here without containers. All
// replicas take part.
func TestComposeWithoutDocker(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"psql", "caddy"} {
		if _, err := exec.LookPath(program); err != nil {
			if config.Environ()["CI"] != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}

	services := readCompose(t).Services
	database := makeRoles(t, services["roles"])
	sites := string(readRoot(t, "compose/Caddyfile"))
	sites = strings.Replace(sites, "admin off", "admin off\n\tdefault_bind 127.0.0.1", 1)
	var replicas []*local.Replica
	for _, s := range targets.All() {
		binary := localtest.Binary(t, s.Name)
		environ := func(command string) map[string]string {
			env := maps.Clone(services[nameIn(s, command)].Environment)
			env["DATABASE_URL"] = strings.Replace(env["DATABASE_URL"], "@postgres/", "@"+database+"/", 1)
			return env
		}
		if err := local.Migrate(t.Context(), binary, environ("migrate")); err != nil {
			t.Fatal(err)
		}

		to := []string{"to"}
		for _, command := range s.Commands() {
			spec := local.Spec{Service: nameIn(s, command), Path: binary, Command: command}
			set := localtest.Start(t, services[spec.Service].Deploy.Replicas, spec, "", environ(command))
			for _, one := range set.Ready() {
				to = append(to, one.API)
			}
			if command == "serve" {
				replicas = append(replicas, set.Replicas()...)
			}
		}
		// The sites share a port: curl takes any name below localhost for this machine.
		sites = strings.NewReplacer(fmt.Sprintf("\n:%d {", s.Port), "\nhttp://"+s.Name+".localhost:PORT {",
			"dynamic a "+s.Name+" 8080 {\n\t\t\trefresh 1s\n\t\t}", strings.Join(to, " ")).Replace(sites)
	}

	port, urls := startCaddy(t, sites), map[string]string{}
	for _, s := range targets.All() {
		urls[s.Name] = fmt.Sprintf("http://%s.localhost:%s", s.Name, port)
	}
	t.Run("tours", func(t *testing.T) { takeTours(t, urls) })
	for _, replica := range replicas {
		n, err := local.Metric(t.Context(), replica.Status().Admin, "http_server_request_duration_seconds_count")
		if err != nil || n == 0 {
			t.Errorf("%s has answered %v requests, %v", replica.Name(), n, err)
		}
	}
}

// makeRoles runs the script of the container that makes the roles, on a private server, and returns the server's
// address.
func makeRoles(t *testing.T, c container) (address string) {
	t.Helper()
	server := dbtest.Server(t)
	if err := local.Database(t.Context(), server.URL("postgres"), c.Environment["PGDATABASE"]); err != nil {
		t.Fatal(err)
	}
	admin, err := neturl.Parse(server.URL(c.Environment["PGDATABASE"]))
	if err != nil {
		t.Fatal(err)
	}

	here := strings.NewReplacer("$$", "$", "psql ", "psql '"+admin.String()+"' ", "/roles.psql", root+"/k8s/roles.psql")
	shell(t, here.Replace(c.Command[2]))
	return admin.Host
}

// startCaddy runs a balancer until the test ends, and returns its port, which stands for PORT in the sites.
func startCaddy(t *testing.T, sites string) (port string) {
	t.Helper()
	program, err := exec.LookPath("caddy")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	file := filepath.Join(home, "Caddyfile")
	var server *guard.Server
	server = guard.NewServer(guard.Config{
		Name: "caddy", LogFile: filepath.Join(home, "log"), Stop: syscall.SIGTERM, Kill: syscall.SIGKILL,
		Spec: func(port int) (guard.Spec, error) {
			return guard.Spec{
				Path: program, Args: []string{"run", "--config", file}, Env: []string{"HOME=" + home}, Dir: home,
			}, os.WriteFile(file, []byte(strings.ReplaceAll(sites, "PORT", strconv.Itoa(port))), 0o600)
		},
		Ready: func(ctx context.Context) error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", server.Address())
			if err != nil {
				return err
			}
			return conn.Close()
		},
	})
	if err := server.Start(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	_, port, err = net.SplitHostPort(server.Address())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// takeTours takes the tours of all services at these addresses, and calls each API of theirs.
func takeTours(t *testing.T, urls map[string]string) {
	t.Helper()
	for _, s := range targets.All() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			takeTour(t, s, urls[s.Name])
			for _, ask := range s.Asks {
				ask = strings.NewReplacer("URL", urls[s.Name], "INTERNAL", urls[s.Name]).Replace(ask)
				got := shell(t, `printf '\0\0\0\0\2\010\001' | curl --silent --output /dev/null --dump-header - `+ask)
				if !strings.Contains(got, " 200") || strings.Contains(ask, "grpc") && !strings.Contains(got, "grpc-status: 0") {
					t.Errorf("curl %s: %s", ask, got)
				}
			}
		})
	}
}

// An engine brings all of compose.yaml up: the tours work, Prometheus scrapes each replica, and Grafana has the
// dashboards.
func TestComposeUp(t *testing.T) {
	if config.Environ()["CI"] == "" {
		t.Skip("it builds all images, and needs the ports of the tours: set CI=true")
	}
	// An engine, Compose, and a registry for the images that the file names.
	for _, need := range []string{"info", "compose version", "pull --quiet busybox"} {
		if out, err := exec.CommandContext(t.Context(), "docker", strings.Fields(need)...).CombinedOutput(); err != nil {
			t.Skipf("docker %s: %v\n%s", need, err, out)
		}
	}

	compose := func(args string) {
		command := "docker compose --project-name rowlock-test --file " + root + "/compose.yaml " + args
		out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	t.Cleanup(func() { compose("down --volumes") })
	compose("up --wait")

	urls := map[string]string{}
	for _, s := range targets.All() {
		urls[s.Name] = fmt.Sprintf("http://127.0.0.1:%d", s.Port)
	}
	t.Run("tours", func(t *testing.T) { takeTours(t, urls) })
	for url, want := range map[string]string{
		"http://127.0.0.1:9090/api/v1/query?query=count(up==1)": `"12"]`,
		"http://127.0.0.1:3000/api/search?type=dash-db":         `"Rowlock / pyggpot"`,
	} {
		waittest.Eventually(t, url+" shows "+want, func() bool { return strings.Contains(apptest.Get(t, url).Body, want) })
	}
}
