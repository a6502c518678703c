package sqldb

import (
	"context"
	"fmt"
)

// CheckEncoding returns an error unless a PostgreSQL database stores text as UTF-8. Another
// encoding has no place for some of the text that clients may send, and one such value
// fails the statement of all that share it; SQL_ASCII checks nothing. It returns nil for
// MySQL, where the service's tables name their character set.
func (db *DB) CheckEncoding(ctx context.Context) error {
	if db.kind != PostgreSQL {
		return nil
	}
	var encoding string
	if err := db.GetContext(ctx, &encoding, `SELECT current_setting('server_encoding')`); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database stores text as %s (server_encoding), and the service needs UTF8: "+
			"create the database with ENCODING 'UTF8' TEMPLATE template0", encoding)
	}
	return nil
}
