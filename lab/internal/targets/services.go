package targets

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rowlock "github.com/rowlock/rowlock/client"
)

// Service describes a service of this repository.
type Service struct {
	// Name is the name of the binary, of the database schema and of the chart's part.
	Name string
	// Image is the repository of its container image, such as rowlock/counts.
	Image string
	// Port is where `rowlock up` serves the API, and where the service's README expects it.
	Port int
	// InternalPath is the prefix of the paths that have their own listener in a cluster; empty for none.
	InternalPath string
	// HistorySchema holds goose_db_version where that is not the service's own schema.
	HistorySchema string
	// Engines are the databases that it runs on: PostgreSQL, MySQL.
	Engines []string
	// Worker is the command that runs its workers; empty for none.
	Worker string
	// SecondPool is how many connections a replica's second pool has; 0 where it has none.
	SecondPool int
	// Environ are the variables that its processes need in a run of the lab, with values for it.
	Environ map[string]string
	// Secret names the variable that holds a secret of 32 bytes or more, which `rowlock up` makes once; empty for none.
	Secret string
	// Try is a line for a shell that shows something each time it is run; URL stands for the API's address.
	Try string
	// TryPrints holds a part of what it prints when it is run for the first time, the second time and so on.
	TryPrints []string
	// Asks are requests as arguments of curl, which are answered 200 once the tour has been made; URL and INTERNAL stand
	// for the addresses of the two APIs. One of gRPC has its content type, and on standard input a message whose field 1
	// is 1.
	Asks []string

	open func(t Target, options []rowlock.Option) (workload, error)
}

// The engines.
const (
	PostgreSQL = "postgres"
	MySQL      = "mysql"
)

// registered holds the services, which their files register.
var registered []Service

// register adds a service and its workload. Its result has no meaning: it lets a file register at package level.
func register[W workload](s Service, open func(t Target, options []rowlock.Option) (W, error)) bool {
	s.open = func(t Target, options []rowlock.Option) (workload, error) { return open(t, options) }
	registered = append(registered, s)
	return true
}

// All returns the services in the order of their names.
func All() []Service {
	return slices.SortedFunc(slices.Values(registered), func(a, b Service) int { return cmp.Compare(a.Name, b.Name) })
}

// Names returns the names of all services.
func Names() []string {
	all := All()
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.Name
	}
	return names
}

// Named returns the service of that name.
func Named(name string) (Service, error) {
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
	}
	return Service{}, fmt.Errorf("there is no service %q; the services are %s", name, strings.Join(Names(), ", "))
}

// Choose returns the services of those names in the order of [All], each once; all when there are no names.
func Choose(names []string) ([]Service, error) {
	for _, name := range names {
		if _, err := Named(name); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(All(), func(s Service) bool { return len(names) > 0 && !slices.Contains(names, s.Name) }), nil
}

// Commands returns the commands that run the service's processes: serve, and its worker's where it has one.
func (s Service) Commands() []string {
	if s.Worker == "" {
		return []string{"serve"}
	}
	return []string{"serve", s.Worker}
}

// Workloads returns the suffixes of its Deployments in the chart: "", and "-work" where it has workers.
func (s Service) Workloads() []string {
	if s.Worker == "" {
		return []string{""}
	}
	return []string{"", "-" + s.Worker}
}
