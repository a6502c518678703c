// Package apptest runs replicas of a service inside a test, calls them over HTTP, locks rows in other transactions, and
// checks what every service promises: answers as the OpenAPI document says, a README that shows configuration and
// metrics, bounded series and traced operations.
package apptest
