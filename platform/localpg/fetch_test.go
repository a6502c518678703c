package localpg

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ulikunitz/xz"

	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// repository is a file server on loopback that has one archive under whatever name it is asked for.
type repository struct {
	archive  []byte
	checksum string // answered to .sha256; empty: 404
	gets     atomic.Int32
}

func (r *repository) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case r.archive == nil, !strings.HasPrefix(req.URL.Path, "/mirror/io/zonky/test/postgres/embedded-postgres-binaries-"):
		w.WriteHeader(http.StatusNotFound)
	case strings.HasSuffix(req.URL.Path, ".sha256"):
		if r.checksum == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(r.checksum))
	default:
		r.gets.Add(1)
		_, _ = w.Write(r.archive)
	}
}

func serve(t *testing.T, r *repository) (url string) {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return server.URL + "/mirror/"
}

// bare are the options of a machine without a cache of PostgreSQL.
func bare(t *testing.T, repository string) Options {
	t.Helper()
	return Options{
		Environ: map[string]string{"XDG_CACHE_HOME": t.TempDir(), RepositoryVariable: repository},
	}.withDefaults()
}

// The archive is fetched once, checked, unpacked and kept. Its programs run.
func TestFetch(t *testing.T) {
	t.Parallel()
	archive := jar(t, map[string]string{
		"bin/postgres": "#!/bin/sh\necho 'postgres (PostgreSQL) 18.4'\n", "bin/initdb": "",
	})
	// With the file's name behind the sum, as some repositories have it.
	repo := &repository{archive: archive, checksum: sum(archive) + "  archive.jar\n"}
	o := bare(t, serve(t, repo))
	waittest.Together(t, 4, func(int) error {
		bin, err := fetch(t.Context(), o)
		if bin.major != 18 || !strings.HasPrefix(bin.binDir, o.Environ["XDG_CACHE_HOME"]) {
			t.Errorf("fetched %+v", bin)
		}
		return err
	})
	if gets := repo.gets.Load(); gets != 1 {
		t.Errorf("%d downloads, want 1: four starts share one", gets)
	}
	left, err := filepath.Glob(filepath.Join(o.Environ["XDG_CACHE_HOME"], "rowlock", "*.new"))
	if err != nil || len(left) != 0 {
		t.Errorf("left in the cache: %v %v", left, err)
	}
}

func TestFetchFails(t *testing.T) {
	t.Parallel()
	noServer := jar(t, map[string]string{"bin/pg_ctl": ""})
	for name, test := range map[string]struct {
		repo *repository
		want string
	}{
		"no network":       {nil, "connection refused"},
		"no checksum":      {&repository{archive: noServer}, ".sha256: status 404"},
		"another checksum": {&repository{archive: noServer, checksum: sum([]byte("other"))}, "checksums do not match"},
		"no archive":       {&repository{archive: []byte("text"), checksum: sum([]byte("text"))}, "zip"},
		"no server in it":  {&repository{archive: noServer, checksum: sum(noServer)}, "no program postgres"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "http://127.0.0.1:1"
			if test.repo != nil {
				url = serve(t, test.repo)
			}
			o := bare(t, url)
			_, err := fetch(t.Context(), o)
			wantSentence(t, err, test.want, "no PostgreSQL server is installed and none could be downloaded",
				"install one", "set DATABASE_URL")
			if kept, _ := filepath.Glob(filepath.Join(o.Environ["XDG_CACHE_HOME"], "rowlock", "*-*")); len(kept) != 0 {
				t.Errorf("a failed download leaves %v", kept)
			}
		})
	}
}

func sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// jar packs files as the repository's archives are: a zip with a .txz in it.
func jar(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var zipped bytes.Buffer
	outer := zip.NewWriter(&zipped)
	entry, err := outer.Create("postgres.txz")
	if err != nil {
		t.Fatal(err)
	}
	packed, err := xz.NewWriter(entry)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(packed)
	for name, text := range files {
		header := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	closed(t, archive)
	closed(t, packed)
	closed(t, outer)
	return zipped.Bytes()
}

// stub makes a folder with programs that call themselves PostgreSQL of that version.
func stub(t *testing.T, dir, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"postgres", "initdb"} {
		script := "#!/bin/sh\necho '" + name + " (PostgreSQL) " + version + "'\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	t.Parallel()
	root := folder(t)
	in := func(name string) string { return filepath.Join(root, name) }
	old, older := stub(t, in("lib/16/bin"), "16.4"), stub(t, in("lib/15/bin"), "15.18 (Debian 15.18-1)")
	newest := stub(t, in("lib/18/bin"), "18beta1")
	tooOld := stub(t, in("ancient"), "13.9")
	linked := in("linked")
	if err := os.Mkdir(linked, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(old, "postgres"), filepath.Join(linked, "postgres")); err != nil {
		t.Fatal(err)
	}
	broken := stub(t, in("broken"), "17.1")
	if err := os.Remove(filepath.Join(broken, "initdb")); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		environ map[string]string
		folders []string
		want    string
		wantErr string
	}{
		"usual folders, newest first": {nil, []string{in("lib/*/bin")}, newest, ""},
		"on PATH, by a link":          {map[string]string{"PATH": linked}, []string{older}, old, ""},
		"by the variable, though old": {map[string]string{BinVariable: older}, []string{old}, older, ""},
		"variable points nowhere": {
			map[string]string{BinVariable: in("none")}, []string{old}, "", BinVariable + ": no program postgres in",
		},
		"too old":                    {nil, []string{tooOld}, "", "PostgreSQL 13, which is older than 14"},
		"half an installation":       {nil, []string{broken}, "", "no program initdb in"},
		"half of one beside a whole": {nil, []string{broken, older}, older, ""},
		"a relative PATH is ignored": {map[string]string{"PATH": "."}, nil, "", ErrNotFound.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := find(t.Context(), test.environ, test.folders)
			if test.wantErr != "" {
				wantSentence(t, err, test.wantErr)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if found[0].binDir != test.want {
				t.Errorf("found %s, want %s", found[0].binDir, test.want)
			}
		})
	}
	// And what this machine has.
	dir, err := Find(t.Context(), map[string]string{"PATH": "/usr/bin:/bin"})
	if err != nil || !executable(filepath.Join(dir, "postgres")) {
		t.Errorf("on this machine: %q %v", dir, err)
	}
}
