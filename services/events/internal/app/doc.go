// Package app builds the events service. It is the only package that imports all others.
package app
