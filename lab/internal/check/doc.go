// Package check sends concurrent requests through the addresses of running
// services and compares the results with what they promise, to the last digit:
// n increases make n, one idempotency key makes one payment, ids have no gap,
// claims do not overlap, coins are conserved. It breaks nothing and cleans up
// what it can, so it may run against services that others use meanwhile. It is
// what `helm test` runs.
//
// Each request has a connection of its own, so that a balancer in between deals
// them to all replicas.
package check
