package migrate

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"

	"github.com/pressly/goose/v3"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Source is a set of migrations and where they go.
type Source struct {
	// FS holds the files NNNNN_title.sql in the folder migrations; usually an embed.FS.
	FS fs.FS
	// Schema is the service's own schema: a lower-case SQL name.
	Schema string
	// Engine is the one that the files are written for: PostgreSQL when empty. A database of another one is refused.
	Engine sqldb.Engine
	// HistorySchema holds the table goose_db_version: Schema when empty.
	HistorySchema string
	// Cluster is what distributes the tables: sqldb.ClusterNone when empty.
	Cluster sqldb.Cluster
	// Distribution are the statements that distribute the tables over sqldb.ClusterCitus, after the migrations. Each is
	// run once, in order, in a transaction of its own. Releases add to it and change nothing.
	Distribution []string
}

func (s Source) engine() sqldb.Engine { return cmp.Or(s.Engine, sqldb.PostgreSQL) }

func (s Source) historySchema() string { return cmp.Or(s.HistorySchema, s.Schema) }

// schemaName is an SQL name that needs no quotes.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func (s Source) check() error {
	for _, name := range []string{s.Schema, s.historySchema()} {
		if !schemaName.MatchString(name) {
			return fmt.Errorf("the schema name %q is not a lower-case SQL name of at most 63 characters", name)
		}
	}
	return nil
}

func (s Source) folder() (fs.FS, error) {
	if s.FS == nil {
		return nil, errors.New("the migrations have no file system")
	}
	sub, err := fs.Sub(s.FS, "migrations")
	if err != nil {
		return nil, fmt.Errorf("open the folder of the migrations: %w", err)
	}
	return sub, nil
}

// mark holds what the file of a migration says of programs that do not know it.
type mark struct {
	// oldest is the newest migration that a program must know to run on the schema; 0 where it may know none.
	oldest int64
	// inTx tells whether the migration and its line in the history are one transaction.
	inTx bool
}

// markLine is the line that a file has once.
var markLine = regexp.MustCompile(`(?m)^-- rowlock: (?:compatible|breaking before (\d+))$`)

// noTx is goose's annotation, which it takes in any case.
var noTx = regexp.MustCompile(`(?i)\+goose\s*no transaction`)

// marks returns those of all files by their versions. A file whose name begins with no version, which goose would leave
// out, is an error, as is one without a mark.
func (s Source) marks() (map[int64]mark, error) {
	folder, err := s.folder()
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(folder, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list the migrations: %w", err)
	}
	marks := map[int64]mark{}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("the migration %s does not begin with a version: %w", name, err)
		}
		content, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, fmt.Errorf("read the migration %s: %w", name, err)
		}
		oldest, ok := parseMark(string(content))
		if !ok || oldest > version {
			return nil, fmt.Errorf("the migration %s needs one line \"-- rowlock: compatible\", or \"-- rowlock: breaking "+
				"before N\" with the newest migration, up to %d, that a program must know to run afterwards", name, version)
		}
		inTx := s.engine() == sqldb.PostgreSQL && !noTx.Match(content)
		marks[version] = mark{oldest, inTx}
	}
	return marks, nil
}

// parseMark returns the version of a file's mark, 0 for a compatible one, and false when there is not exactly one.
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

// Hash identifies the migrations and where they go: equal hashes make equal databases. It returns 64 hexadecimal
// digits.
func (s Source) Hash() (string, error) {
	folder, err := s.folder()
	if err := errors.Join(s.check(), err); err != nil {
		return "", err
	}
	names, err := fs.Glob(folder, "*.sql")
	if err != nil {
		return "", fmt.Errorf("list the migrations: %w", err)
	}
	hash := sha256.New()
	add := func(part []byte) { // with its length, so that two different lists never read as the same bytes
		hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		hash.Write(part)
	}
	add([]byte(s.Schema))
	add([]byte(s.historySchema()))
	if s.onCitus() {
		for _, step := range s.distribution() {
			add([]byte(step))
		}
	}
	for _, name := range names {
		content, err := fs.ReadFile(folder, name)
		if err != nil {
			return "", fmt.Errorf("read the migration %s: %w", name, err)
		}
		add([]byte(name))
		add(content)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// lockKey returns the key of the advisory lock of the schema's migrations. Replicas of different releases must take
// the same.
func (s Source) lockKey() int64 {
	sum := sha256.Sum256([]byte("rowlock migrations of " + s.Schema))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any 64 bits are a key
}
