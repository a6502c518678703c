// Package app puts the payments service together: it is the only package that
// knows every other one.
package app
