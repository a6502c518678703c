// Package auth tells who calls, and whether they may.
package auth
