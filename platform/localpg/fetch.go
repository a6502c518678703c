package localpg

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/ulikunitz/xz"
)

const (
	mavenCentral = "https://repo1.maven.org/maven2"
	// fetched is the version to download. Its programs for macOS run on Apple silicon without translation.
	fetched      = "18.4.0"
	fetchedMajor = 18
	// downloadLimit bounds one download, whatever the caller's context allows.
	downloadLimit = 15 * time.Minute
	// maxArchive is the largest accepted download. An archive of PostgreSQL has about 30 MB.
	maxArchive = 512 << 20
)

// howToInstall is the advice for a machine without a server and without a network.
const howToInstall = "install one (`apt-get install postgresql` on Debian and Ubuntu, " +
	"`dnf install postgresql-server` on Fedora, `brew install postgresql@18` on macOS), " +
	"or set DATABASE_URL to an existing server"

// fetch returns the server's programs from the user's cache, and downloads them first if necessary.
func fetch(ctx context.Context, o Options) (installation, error) {
	cache, err := cacheDir(o.Environ)
	if err != nil {
		return installation{}, err
	}
	if err := makeFolder(cache); err != nil {
		return installation{}, fmt.Errorf("make the cache for PostgreSQL: %w", err)
	}

	// One download at a time: concurrent callers wait here and then find the complete download.
	lock, err := awaitLock(ctx, lockFile(cache), downloadLimit, func(time.Duration) {})
	if err != nil {
		return installation{}, err
	}
	defer func() { _ = lock.Close() }()

	home := filepath.Join(cache, fmt.Sprintf("postgresql-%s-%s-%s", fetched, runtime.GOOS, runtime.GOARCH))
	bin := filepath.Join(home, "bin")
	if one, err := inspect(ctx, bin); err == nil {
		return one, nil
	}

	repository := cmp.Or(o.Environ[RepositoryVariable], mavenCentral)
	o.sayf("No PostgreSQL server is installed: downloading %s from %s to %s", fetched, repository, home)

	if err := download(ctx, repository, home); err != nil {
		return installation{}, fmt.Errorf("no PostgreSQL server is installed and none could be downloaded (%w): %s",
			err, howToInstall)
	}
	return inspect(ctx, bin)
}

// cacheDir returns the folder for downloaded programs: the user's cache, or for root the system's, because
// the server's account may not be able to enter root's.
func cacheDir(environ map[string]string) (string, error) {
	if dir := environ["XDG_CACHE_HOME"]; filepath.IsAbs(dir) {
		return filepath.Join(dir, "rowlock"), nil
	}
	if os.Geteuid() == 0 {
		return "/var/cache/rowlock", nil
	}
	if home := environ["HOME"]; home != "" {
		return filepath.Join(home, ".cache", "rowlock"), nil
	}
	return "", errors.New("neither HOME nor XDG_CACHE_HOME is set: no place to keep a downloaded PostgreSQL")
}

// download fetches the archive, checks it against its published SHA-256, unpacks it and moves it to home.
func download(ctx context.Context, repository, home string) (err error) {
	archive, err := fetchArchive(ctx, repository)
	if err != nil {
		return err
	}

	work := home + ".new" // which a download that was killed may have left
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := errors.Join(os.RemoveAll(work), makeFolder(work)); err != nil {
		return fmt.Errorf("make a folder for the download: %w", err)
	}

	if err := unpack(archive, work); err != nil {
		return fmt.Errorf("unpack the archive: %w", err)
	}
	if _, err := inspect(ctx, filepath.Join(work, "bin")); err != nil {
		return fmt.Errorf("the archive is incomplete: %w", err)
	}

	if err := errors.Join(os.RemoveAll(home), os.Rename(work, home)); err != nil {
		return fmt.Errorf("replace %s by the download: %w", home, err)
	}
	return nil
}

// fetchArchive downloads this system's archive of github.com/zonkyio/embedded-postgres-binaries from a
// repository with the layout of Maven Central. It refuses an archive whose SHA-256 is not the published
// one, or that has none.
func fetchArchive(ctx context.Context, repository string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadLimit)
	defer cancel()

	system := runtime.GOOS + "-" + runtime.GOARCH
	if runtime.GOARCH == "arm64" {
		system += "v8"
	}
	if exists("/etc/alpine-release") {
		system += "-alpine"
	}

	name := "embedded-postgres-binaries-" + system
	url := fmt.Sprintf("%s/io/zonky/test/postgres/%s/%s/%s-%s.jar",
		strings.TrimRight(repository, "/"), name, fetched, name, fetched)

	text, err := get(ctx, url+".sha256")
	if err != nil {
		return nil, err
	}
	archive, err := get(ctx, url)
	if err != nil {
		return nil, err
	}

	// Some repositories append a line break to the sum, some the file's name.
	want, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if sum := sha256.Sum256(archive); hex.EncodeToString(sum[:]) != strings.ToLower(want) {
		return nil, fmt.Errorf("%s: checksums do not match", url)
	}
	return archive, nil
}

// get returns the body at url.
func get(ctx context.Context, url string) (body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}

	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("download: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()

	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %s", url, resp.Status)
	}
	body, err = io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxArchive))
	if err != nil {
		return nil, fmt.Errorf("download %s: %w", url, err)
	}
	return body, nil
}

// unpack extracts the .txz inside the archive, a zip, into dir. Paths and links cannot escape dir.
func unpack(archive []byte, dir string) (err error) {
	outer, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return fmt.Errorf("the zip: %w", err)
	}

	inner := ""
	for _, file := range outer.File {
		if path.Ext(file.Name) == ".txz" {
			inner = file.Name
		}
	}

	packed, err := outer.Open(inner)
	if err != nil {
		return fmt.Errorf("the zip holds no .txz: %w", err)
	}
	defer func() { err = errors.Join(err, packed.Close()) }()

	plain, err := xz.NewReader(packed)
	if err != nil {
		return fmt.Errorf("%s: %w", inner, err)
	}

	// Below an os.Root no path and no link of the archive can escape.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()

	for entries := tar.NewReader(plain); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = extract(root, entry, entries)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", inner, err)
		}
	}
}

// extract writes one entry of the tar below root. It skips entries other than folders, files and links.
func extract(root *os.Root, entry *tar.Header, content io.Reader) error {
	name := filepath.FromSlash(path.Clean(entry.Name))
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}

	switch entry.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(entry.Linkname, name)
	case tar.TypeLink:
		return root.Link(entry.Linkname, name)
	case tar.TypeReg:
		file, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, entry.FileInfo().Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(file, io.LimitReader(content, entry.Size))
		return errors.Join(err, file.Close())
	default:
		return nil
	}
}
