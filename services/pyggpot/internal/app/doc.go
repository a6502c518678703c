// Package app builds the pyggpot service. It is the only package that imports all others.
package app
