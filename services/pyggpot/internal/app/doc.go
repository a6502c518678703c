// Package app puts the pyggpot service together: it is the only package that
// knows every other one.
package app
