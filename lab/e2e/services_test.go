//go:build e2e

package e2e

// service is a row of the table: what the story needs to know of a service.
type service struct {
	name string
	// workloads are the suffixes of its Deployments: "" and, for events, "-work".
	workloads []string
	// port is where its README's tour expects it on 127.0.0.1.
	port string
	// internal is the path that the tour finds there and that has a Service of its own in a cluster.
	internal string
	// table is one of its own, for others to be kept from.
	table string
}

func services() []service {
	return []service{
		{name: "counts", workloads: []string{""}, port: "8083", internal: "/api/v1/internal", table: "counts.count_values"},
		{name: "events", workloads: []string{"", "-work"}, port: "8085", table: "events.events"},
		{name: "iidy", workloads: []string{""}, port: "8084", table: "iidy.lists"},
		{name: "payments", workloads: []string{""}, port: "8082", table: "payments.payments"},
		{name: "pyggpot", workloads: []string{""}, port: "8081", table: "pyggpot.pot"},
	}
}
