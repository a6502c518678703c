package migrate

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"github.com/pressly/goose/v3"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Source is a set of migrations and their target.
type Source struct {
	// FS holds the files NNNNN_title.sql in the folder migrations; usually an embed.FS.
	FS fs.FS
	// Schema is the service's schema: a lower-case SQL name that needs no quotes.
	Schema string
	// Engine is the engine that the files are written for, by default PostgreSQL. Databases of other engines are refused.
	Engine sqldb.Engine
	// HistorySchema is the schema of the table goose_db_version, by default Schema.
	HistorySchema string
	// Cluster is what distributes the tables, by default sqldb.ClusterNone.
	Cluster sqldb.Cluster
	// Pooler stands between Up and the database, by default none.
	Pooler sqldb.Pooler
	// Rights lists what the role of a replica may do with what the migrations make, as sqldb.DB.CheckRights takes it.
	Rights []string
	// Distribution lists the statements that distribute the tables over sqldb.ClusterCitus after the migrations. Each
	// runs once, in order, in a separate transaction. Releases may append to the list but change nothing in it.
	Distribution []string
}

func (s Source) engine() sqldb.Engine { return cmp.Or(s.Engine, sqldb.PostgreSQL) }

func (s Source) historySchema() string { return cmp.Or(s.HistorySchema, s.Schema) }

// files calls each with all files in the order of their names.
func (s Source) files(each func(name string, content []byte) error) error {
	names, err := fs.Glob(s.FS, "migrations/*.sql")
	if err != nil {
		return fmt.Errorf("list the migrations: %w", err)
	}

	for _, name := range names {
		content, err := fs.ReadFile(s.FS, name)
		if err == nil {
			err = each(name, content)
		}
		if err != nil {
			return fmt.Errorf("the migration %s: %w", name, err)
		}
	}
	return nil
}

// mark says how a migration affects programs that do not know it.
type mark struct {
	// oldest is the newest migration that a program must know to run on the schema; 0: none.
	oldest int64
	// inTx says that the migration and its line in the history are one transaction.
	inTx bool
}

// markLine matches the line that each file must have exactly once.
var markLine = regexp.MustCompile(`(?m)^-- rowlock: (?:compatible|breaking before (\d+))$`)

// noTx matches goose's annotation, which goose accepts in any case.
var noTx = regexp.MustCompile(`(?i)\+goose\s*no transaction`)

// marks returns the marks of all files by version. A file without a mark is an error. So is a file whose name does not
// begin with a version, because goose would skip it.
func (s Source) marks() (map[int64]mark, error) {
	marks := map[int64]mark{}
	err := s.files(func(name string, content []byte) error {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return fmt.Errorf("its name does not begin with a version: %w", err)
		}
		oldest, ok := parseMark(string(content))
		if !ok || oldest > version {
			return fmt.Errorf("it needs one line \"-- rowlock: compatible\", or \"-- rowlock: breaking before N\" "+
				"with the newest migration, up to %d, that a program must know to run afterwards", version)
		}
		marks[version] = mark{oldest, s.engine() == sqldb.PostgreSQL && !noTx.Match(content)}
		return nil
	})
	return marks, err
}

// parseMark returns the version in a file's mark, 0 for a compatible one, and false unless there is exactly one mark.
func parseMark(content string) (oldest int64, ok bool) {
	lines := markLine.FindAllStringSubmatch(content, -1)
	if len(lines) != 1 {
		return 0, false
	}
	if lines[0][1] == "" {
		return 0, true
	}
	oldest, err := strconv.ParseInt(lines[0][1], 10, 64)
	return oldest, err == nil && oldest > 0
}

// Hash identifies the migrations and their target: equal hashes yield equal databases. It returns 64 hexadecimal
// digits.
func (s Source) Hash() (string, error) {
	hash := sha256.New()
	// Quoted, so that different lists never hash the same bytes. A hash does not fail.
	_, _ = fmt.Fprintf(hash, "%q %q\n", s.Schema, s.historySchema())
	if s.onCitus() {
		_, _ = fmt.Fprintf(hash, "%q\n", s.distribution())
	}
	err := s.files(func(name string, content []byte) error {
		_, _ = fmt.Fprintf(hash, "%q %q\n", name, content)
		return nil
	})
	return hex.EncodeToString(hash.Sum(nil)), err
}

// lockKey returns the key of the advisory lock for the schema's migrations. It must be the same in all releases.
func (s Source) lockKey() int64 {
	sum := sha256.Sum256([]byte("rowlock migrations of " + s.Schema))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
