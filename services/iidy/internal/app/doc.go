// Package app puts a replica of iidy together.
package app
