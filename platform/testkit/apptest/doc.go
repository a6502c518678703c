// Package apptest runs replicas of a service inside a test, calls them over HTTP, locks rows in other transactions,
// and checks what every service promises: answers as the OpenAPI document says, bounded series, and a reference page
// that shows configuration and metrics.
package apptest
