// Package apptest runs replicas of a service inside a test, speaks to them over
// HTTP, and holds a service's README against what a replica really has. It is
// for tests alone.
package apptest
