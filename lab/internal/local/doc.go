// Package replica runs the replicas of a service as real processes and keeps
// them running, the way a cluster would.
//
// A [Set] starts N processes of one binary, each on free ports of the loopback
// interface, and learns their addresses from the log lines that every service
// writes when it has bound:
//
//	{"msg":"listening","server":"api","addr":"127.0.0.1:43121"}
//	{"msg":"listening","server":"admin","addr":"127.0.0.1:43122"}
//
// From then on /readyz of the admin listener says whether a replica takes
// requests. [Set.Backends] lists those that do, which is what a balancer needs.
//
// A replica that ends without being asked is reported and started again after a
// pause that grows while it keeps dying. Its ports change with every start.
//
//	starting --ready--> listed --not ready--> unlisted --ready--> listed
//	    |                  |                      |
//	    +------ended-------+------- ended --------+---> pause ---> starting
//
// No replica outlives the process that runs the set: each has a guard
// (platform/localpg/guard) that ends it in that case. Each also has a session of
// its own, so that Ctrl-C in a terminal reaches the set alone, which then stops
// the replicas in order.
package local
