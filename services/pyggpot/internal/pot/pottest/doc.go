// Package pottest is the suite that every repository of pots must pass, and a
// repository in memory that passes it. Only tests import it.
package pottest
