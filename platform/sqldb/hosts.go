package sqldb

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lib/pq"
)

// checkHosts returns an error for a URL of PostgreSQL with more than one port; a port after
// the last host is that of all. libpq would read it. The driver takes all of the hosts for
// one name, which never answers.
func checkHosts(rawURL string) error {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	if !strings.HasPrefix(scheme, "postgres") {
		return nil
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	hosts := rest[strings.LastIndex(rest, "@")+1:]
	if last := strings.LastIndex(hosts, ","); last >= 0 && strings.Contains(hosts[:last], ":") {
		return errors.New("the database URL has several hosts with ports of their own, which cannot be read in that " +
			"form: write postgres://user:password@/database?host=a,b&port=5432,5432")
	}
	return nil
}

// checkTarget returns an error for a URL that wants sessions that take no changes.
//
// A pool asks for read-write where the URL says nothing: a session on a standby would
// answer reads with what the primary has replaced, and stay in the pool after another
// server's promotion. Behind a pooler it cannot: PgBouncer repeats to each client what the
// first server said of itself, in_hot_standby too, after that one's promotion.
func checkTarget(cfg pq.Config) error {
	switch cfg.TargetSessionAttrs {
	case "", pq.TargetSessionAttrsReadWrite, pq.TargetSessionAttrsPrimary, pq.TargetSessionAttrsAny:
		return nil
	case pq.TargetSessionAttrsReadOnly, pq.TargetSessionAttrsStandby, pq.TargetSessionAttrsPreferStandby:
	}
	return fmt.Errorf("the database URL says target_session_attrs=%s, with which nothing can be changed: "+
		"write read-write, or leave it out", cfg.TargetSessionAttrs)
}

// standbyRefusal returns the error of BEGIN READ WRITE, as a *meantError when the server
// supports no such transaction: during recovery, and for no other reason, and it is no
// mistake in the program. The message is localized, and no proof.
func standbyRefusal(err error) error {
	if r, _ := answered(err); r.sqlState == stateFeatureNotSupported {
		return &meantError{err, Connection}
	}
	return err
}
