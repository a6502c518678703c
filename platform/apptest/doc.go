// Package apptest runs replicas of a service inside a test, calls them over HTTP, and checks what every service
// promises: answers as the OpenAPI document says, a README that shows configuration and metrics, bounded series and
// traced operations.
package apptest
