// Package app builds the payments service. It is the only package that imports all others.
package app
