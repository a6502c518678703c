// Package app composes the payments service: it is the only package that imports all
// the others.
package app
