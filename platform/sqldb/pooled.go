package sqldb

import "github.com/lib/pq"

// pooled returns the driver's configuration of a pool behind a pooler: the URL's,
// when checkPooled accepts it.
func pooled(cfg pq.Config) (pq.Config, error) { return cfg, checkPooled(cfg) }
