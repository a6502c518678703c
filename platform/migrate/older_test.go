package migrate_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/migrate"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// runs fails the test unless the program of src may run on the schema, and says so when the schema is newer.
func runs(t *testing.T, dsn string, src migrate.Source, newer bool) {
	t.Helper()
	logs := new(waittest.Log)
	log := slog.New(slog.NewTextHandler(logs, nil))
	err := errors.Join(migrate.Up(t.Context(), dsn, src, patience, log), migrate.Verify(t.Context(), dsn, src, log))
	if got := strings.Count(logs.String(), "newer than this program"); err != nil || (got == 2) != newer || got == 1 {
		t.Errorf("%v; Up and Verify said %d times that the schema is newer, want %v: %s", err, got, newer, logs)
	}
}

// refused fails the test unless the program of src is told that it is too old.
func refused(t *testing.T, dsn string, src migrate.Source, want string) {
	t.Helper()
	for _, err := range []error{
		migrate.Up(t.Context(), dsn, src, patience, quiet()), migrate.Verify(t.Context(), dsn, src, quiet()),
	} {
		if !errors.Is(err, migrate.ErrSchemaNewer) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// Release 4 expands and release 5 contracts: a program of release 3 goes on beside 4 and not beside 5, and one of 4
// goes on beside 5.
func TestOlderPrograms(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	three := source()
	four := with("00004_expand.sql", "-- +goose Up\nALTER TABLE shop.item ADD COLUMN remark text;\n")
	five := add(four, "00005_contract.sql",
		"-- rowlock: breaking before 4\n-- +goose Up\nALTER TABLE shop.item DROP COLUMN note;\n")
	up(t, url, three)
	runs(t, url, three, false)
	up(t, url, four)
	runs(t, url, three, true)
	up(t, url, five)
	runs(t, url, four, true)
	runs(t, url, five, false)
	refused(t, url, three,
		"it has version 5, which needs a program that knows version 4 or more, and this one knows up to 3")
	// A later compatible migration takes nothing back.
	up(t, url, add(five, "00006_more.sql", "-- rowlock: compatible\n-- +goose Up\nCREATE TABLE shop.more ();\n"))
	refused(t, url, three, "it has version 6, which needs a program that knows version 4")
}

// A breaking migration that fails in its transaction has broken nothing.
func TestBreakingMigrationFails(t *testing.T) {
	t.Parallel()
	url := dbtest.Empty(t)
	up(t, url, source())
	bad := add(with("00004_more.sql", "-- +goose Up\nCREATE TABLE shop.more ();\n"), "00005_bad.sql",
		"-- rowlock: breaking before 5\n-- +goose Up\nDROP TABLE shop.more;\nSELECT 1 / 0;\n")
	if err := migrate.Up(t.Context(), url, bad, patience, quiet()); err == nil {
		t.Fatal("it did not fail")
	}
	runs(t, url, source(), true)
}

// Where the migration is no transaction, older programs are refused before it begins, so also when it fails.
func TestBreakingMigrationOutsideATransaction(t *testing.T) {
	t.Parallel()
	for engine, tt := range map[string]struct {
		open      func(testing.TB) string
		old       migrate.Source
		no        string
		statement string
	}{
		"postgres": {dbtest.Empty, source(), "-- +goose no transaction\n", "DROP INDEX CONCURRENTLY shop.item_note"},
		"mariadb":  {dbtest.EmptyMariaDB, mariaSource(nil), "", "DROP TABLE one"},
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			url := tt.open(t)
			up(t, url, tt.old)
			four := add(tt.old, "00004_more.sql", "-- rowlock: compatible\n-- +goose Up\nSELECT 1;\n")
			up(t, url, four)
			runs(t, url, tt.old, true)
			const name = "00005_contract.sql"
			head := "-- rowlock: breaking before 5\n" + tt.no + "-- +goose Up\n"
			bad := add(four, name, head+"SELECT nothing FROM nowhere;\n")
			if err := migrate.Up(t.Context(), url, bad, patience, quiet()); err == nil {
				t.Fatal("it did not fail")
			}
			refused(t, url, tt.old, "it has version 4, which needs a program that knows version 5")
			refused(t, url, four, "it has version 4, which needs a program that knows version 5")
			runs(t, url, add(four, name, head+tt.statement+";\n"), false)
		})
	}
}
