// Package app puts the counts service together: it is the only package that
// knows every other one.
package app
