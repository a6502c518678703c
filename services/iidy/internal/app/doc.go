// Package app builds the iidy service. It is the only package that imports all others.
package app
