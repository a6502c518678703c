// Package local runs a service on this machine: its binary, the replicas behind one address, and its schema and roles
// in a private database.
//
// A [Set] starts N processes of one binary on free ports and learns their addresses from the log lines that every
// service writes when it listens:
//
//	{"msg":"listening","server":"api","addr":"127.0.0.1:43121"}
//	{"msg":"listening","server":"admin","addr":"127.0.0.1:43122"}
//
// From then on /readyz of the admin listener says whether a replica takes requests. [Set.Ready] lists those that do,
// for a [Balancer]. A replica that ends unexpectedly is started again after a pause that doubles while it keeps ending
// early.
//
//	starting --ready--> listed --not ready--> unlisted --ready--> listed
//	    |                  |                      |
//	    +------ended-------+------- ended --------+---> pause ---> starting
//
// No replica outlives the process that runs the set: a guard (platform/localpg/guard) ends it. Each has its own
// session, so that Ctrl-C in a terminal reaches the set alone, which then stops the replicas in order.
package local
