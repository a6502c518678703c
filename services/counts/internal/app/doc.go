// Package app builds the counts service. It is the only package that imports all others.
package app
