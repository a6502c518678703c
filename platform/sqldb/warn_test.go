package sqldb_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/localpg"
	"github.com/rowlock/rowlock/platform/sqldb"
)

// TestWarnOfDurability: each setting by which the server may lose what it has
// confirmed is named when it is off, and only then.
func TestWarnOfDurability(t *testing.T) {
	t.Parallel()
	settings := []string{"fsync", "synchronous_commit", "full_page_writes"}
	for _, value := range []string{"on", "off"} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			server := dbtest.Server(t, func(o *localpg.Options) {
				o.Settings = make(map[string]string, len(settings))
				for _, name := range settings {
					o.Settings[name] = value
				}
			})
			var buf bytes.Buffer
			db, err := sqldb.Open(t.Context(), sqldb.Settings{URL: server.URL("postgres")}, slog.New(slog.NewTextHandler(&buf, nil)), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err = errors.Join(db.Warn(t.Context()), db.Close()); err != nil {
				t.Fatal(err)
			}
			for _, name := range settings {
				if warned := strings.Contains(buf.String(), "runs with "+name+"=off"); warned != (value == "off") {
					t.Errorf("%s=%s: warned %t\n%s", name, value, warned, &buf)
				}
			}
		})
	}
}
