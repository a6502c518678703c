// Package services registers the services for the lab's tools: one table with what any of them needs to know of a
// service. A new service is a row here.
package services

import (
	"fmt"
	"slices"
	"strings"
)

// Service describes a service of this repository.
type Service struct {
	// Name is the name of the binary, of the database schema and of the chart's part.
	Name string
	// Image is the repository of its container image, such as rowlock/counts.
	Image string
	// Port is where `rowlock up` serves the API, and where the service's README expects it.
	Port int
	// InternalPath is the prefix of the paths that have a listener of their own in a cluster; empty for none.
	InternalPath string
	// HistorySchema holds goose_db_version where that is not the service's own schema.
	HistorySchema string
	// Tables are its tables with their schema. The first one holds what the service is about.
	Tables []string
	// Engines are the databases that it runs on: PostgreSQL, MySQL.
	Engines []string
	// Worker is the command that runs its workers; empty for none.
	Worker string
	// SecondPool reports that a replica opens a second pool of connections.
	SecondPool bool
	// Environ are the variables that its processes need in a run of the lab, with values for it.
	Environ map[string]string
	// Try is a line for a shell that shows something each time it is run; URL stands for the API's address.
	Try string
}

// The engines.
const (
	PostgreSQL = "postgres"
	MySQL      = "mysql"
)

// The names of the services.
const (
	Counts   = "counts"
	Events   = "events"
	Iidy     = "iidy"
	Payments = "payments"
	Pyggpot  = "pyggpot"
)

// All returns the services in the order of their names.
func All() []Service {
	return []Service{{
		Name: Counts, Image: "rowlock/count-processing-service", Port: 8083, InternalPath: "/api/v1/internal",
		Tables: []string{"counts.count_values"}, Engines: []string{PostgreSQL},
		Try: `curl -s -o /dev/null -H 'Content-Type: application/json' -d '{"itemId":"apples"}' URL/api/v1/internal/counts;` +
			` curl -s -X POST URL/api/v1/counts/apples/increase`,
	}, {
		Name: Events, Image: "rowlock/events", Port: 8085, HistorySchema: "events_meta",
		Tables: []string{"events.events", "events.status"}, Engines: []string{PostgreSQL, MySQL}, Worker: "work",
		Try: `curl -s -X POST URL/events; curl -s -X POST URL/events/async; curl -s URL/events`,
	}, {
		Name: Iidy, Image: "rowlock/iidy", Port: 8084, Tables: []string{"iidy.lists"}, Engines: []string{PostgreSQL},
		Try: `printf 'a.txt\nb.txt\n' | curl -s URL/iidy/v1/batch/lists/downloads --data-binary @-;` +
			` curl -s "URL/iidy/v1/batch/lists/downloads?count=10"`,
	}, {
		Name: Payments, Image: "rowlock/payments", Port: 8082,
		Tables:  []string{"payments.payments", "payments.processor_charges", "payments.idempotency_records"},
		Engines: []string{PostgreSQL}, SecondPool: true,
		Environ: map[string]string{"FINGERPRINT_SECRET": "a secret of the lab, long enough"},
		Try: `curl -si -H 'Content-Type: application/json' -H 'Idempotency-Key: try-1' URL/v1/payments` +
			` -d '{"ride_id":"ride-1","rider_id":"rider-1","amount":1250,"currency":"EUR",` +
			`"card":{"number":"4242424242424242","exp_month":12,"exp_year":2099,"cvc":"123"}}'`,
	}, {
		Name: Pyggpot, Image: "rowlock/pyggpot", Port: 8081, Tables: []string{"pyggpot.pot", "pyggpot.coin"},
		Engines: []string{PostgreSQL},
		Try: `curl -s -o /dev/null -H 'Content-Type: application/json' -d '{"pot_name":"Piggy","max_coins":1000}'` +
			` URL/pyggpot.pot.Pot/CreatePot; curl -s -H 'Content-Type: application/json'` +
			` -d '{"pot_id":1,"coins":[{"kind":"GOLD","count":1}]}' URL/pyggpot.coin.Coin/AddCoins`,
	}}
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
