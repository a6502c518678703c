// Package app composes a replica of iidy.
package app
