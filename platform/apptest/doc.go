// Package apptest runs replicas of a service in a test, calls them over HTTP and locks rows in other transactions. It
// also checks what every service promises: answers that match the OpenAPI document, a bounded number of series, and a
// README that shows configuration and metrics.
package apptest
