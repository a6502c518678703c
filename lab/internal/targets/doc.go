// Package targets registers the services for the lab's tools. The file of a
// service has its row (image, port, a first call) and its workload:
// operations sent by the typed clients, and the sums that must come out.
//
// [Check] sends concurrent requests and compares their results with what the
// service promises, to the last digit: n increases make n, one idempotency key
// makes one payment, ids have no gap, claims do not overlap, coins are conserved.
// It injects no fault and cleans up what it can, so it may run against services
// that others use meanwhile. It is what `helm test` runs.
//
// [Drive] keeps a service under steady load until it is stopped, and compares the
// sums then. What is stored lies between what was acknowledged and that plus what
// is unknown, whatever happened meanwhile. The tests in a cluster run it in a pod
// while they upgrade, kill and scale.
package targets
