package migrate

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/rowlock/rowlock/platform/sqldb"
)

// Source is a set of migrations and where they go.
type Source struct {
	// FS holds the folder Dir; an embed.FS as a rule.
	FS fs.FS
	// Dir is the folder of the files NNNNN_title.sql: "migrations" when empty.
	Dir string
	// Schema is the service's own schema: a lower-case SQL name.
	Schema string
	// Engine is the one that the files are written for: PostgreSQL when empty. A
	// database of another one is refused.
	Engine sqldb.Engine
	// HistorySchema holds the table goose_db_version: Schema when empty.
	HistorySchema string
}

func (s Source) engine() sqldb.Engine { return cmp.Or(s.Engine, sqldb.PostgreSQL) }

const (
	defaultDir   = "migrations"
	historyTable = "goose_db_version"
)

// schemaName is an SQL name that needs no quotes.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// migration is one file.
type migration struct {
	version int64
	file    string
}

func (m migration) String() string { return m.file }

// history is the qualified name of the history table.
func (s Source) history() string { return s.historySchema() + "." + historyTable }

func (s Source) historySchema() string {
	if s.HistorySchema == "" {
		return s.Schema
	}
	return s.HistorySchema
}

// schemas lists what has to exist before the first migration.
func (s Source) schemas() []string {
	if s.historySchema() == s.Schema {
		return []string{s.Schema}
	}
	return []string{s.Schema, s.historySchema()}
}

func (s Source) folder() (fs.FS, error) {
	if s.FS == nil {
		return nil, errors.New("the migrations have no file system")
	}
	dir := s.Dir
	if dir == "" {
		dir = defaultDir
	}
	sub, err := fs.Sub(s.FS, dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder of the migrations: %w", err)
	}
	return sub, nil
}

func (s Source) check() error {
	for _, name := range s.schemas() {
		if !schemaName.MatchString(name) {
			return fmt.Errorf("the schema name %q is not a lower-case SQL name of at most 63 characters", name)
		}
	}
	return nil
}

// migrations lists the files by version.
func (s Source) migrations() ([]migration, error) {
	folder, err := s.folder()
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(folder, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list the migrations: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("the schema %s has no migrations", s.Schema)
	}
	list := make([]migration, 0, len(names))
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("the migration %s: %w", name, err)
		}
		list = append(list, migration{version: version, file: path.Base(name)})
	}
	slices.SortFunc(list, func(a, b migration) int { return int(a.version - b.version) })
	return list, nil
}

// Hash identifies the migrations and where they go: equal hashes make equal
// databases. It is 64 hexadecimal digits.
func (s Source) Hash() (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	list, err := s.migrations()
	if err != nil {
		return "", err
	}
	folder, err := s.folder()
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	// Lengths keep two different lists from reading as the same bytes.
	add := func(part []byte) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write(part)
	}
	add([]byte(s.Schema))
	add([]byte(s.historySchema()))
	for _, m := range list {
		content, err := fs.ReadFile(folder, m.file)
		if err != nil {
			return "", fmt.Errorf("read the migration %s: %w", m.file, err)
		}
		add([]byte(m.file))
		add(content)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// lockKey is the advisory lock of the schema's migrations.
func (s Source) lockKey() int64 {
	sum := sha256.Sum256([]byte("rowlock migrations of " + s.Schema))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any 64 bits are a key
}

// join lists files for a sentence.
func join(list []migration) string {
	names := make([]string, len(list))
	for i, m := range list {
		names[i] = m.file
	}
	return strings.Join(names, ", ")
}
