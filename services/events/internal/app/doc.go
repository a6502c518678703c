// Package app puts the events service together: it is the only package that
// knows every other one.
package app
