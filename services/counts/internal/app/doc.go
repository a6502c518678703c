// Package app composes the counts service: it is the only package that imports every other one.
package app
