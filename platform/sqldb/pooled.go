//go:build !bug_textparams

package sqldb

import "github.com/lib/pq"

// pooled is the driver's configuration of a pool behind a pooler: what the URL
// says, unless that would go wrong.
func pooled(cfg pq.Config) (pq.Config, error) { return cfg, checkPooled(cfg) }
