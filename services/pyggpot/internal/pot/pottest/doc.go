// Package pottest holds the suite that every repository of pots must pass. Only tests import it.
package pottest
