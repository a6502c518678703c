//go:build bug_textparams

package sqldb

import "github.com/lib/pq"

// pooled is the bug "no binary_parameters behind a pooler" (rowlock mutation-test): a
// statement is then sent in two round trips, and another client's can come between.
func pooled(cfg pq.Config) (pq.Config, error) {
	cfg.BinaryParameters = false
	return cfg, nil
}
