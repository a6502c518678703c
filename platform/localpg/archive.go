package localpg

import (
	"archive/tar"
	"archive/zip"
	"bytes"
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

	"github.com/xi2/xz"
)

// An archive of PostgreSQL has some 30 MB, a checksum 64 bytes. Larger files are refused.
const (
	maxArchive  = 512 << 20
	maxChecksum = 4 << 10
	// downloadLimit bounds one download, whatever the caller's context allows.
	downloadLimit = 15 * time.Minute
)

// fetchArchive downloads this system's archive of github.com/zonkyio/embedded-postgres-binaries from
// a repository laid out like Maven Central and returns it when its SHA-256 is the published one. An
// archive without a checksum is refused.
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

	text, err := get(ctx, url+".sha256", maxChecksum)
	if err != nil {
		return nil, err
	}
	// Some repositories add a line break, some the file's name.
	want, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if sum, err := hex.DecodeString(want); err != nil || len(sum) != sha256.Size {
		return nil, fmt.Errorf("%s.sha256 is not a checksum", url)
	}
	archive, err := get(ctx, url, maxArchive)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(archive); hex.EncodeToString(sum[:]) != strings.ToLower(want) {
		return nil, fmt.Errorf("%s: checksums do not match", url)
	}
	return archive, nil
}

// get returns the body at url, of at most limit bytes.
func get(ctx context.Context, url string, limit int64) (body []byte, err error) {
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
	if body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1)); err != nil {
		return nil, fmt.Errorf("download %s: %w", url, err)
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", url, limit)
	}
	return body, nil
}

// unpack extracts the .txz inside the archive, a zip, into dir. Paths and links cannot leave dir.
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
	plain, err := xz.NewReader(packed, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", inner, err)
	}
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

// extract writes one entry of the tar below root. Entries other than folders, files and links are
// left out.
func extract(root *os.Root, entry *tar.Header, content io.Reader) (err error) {
	name := filepath.FromSlash(path.Clean(entry.Name))
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err //nolint:wrapcheck // names the path
	}
	switch entry.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755) //nolint:wrapcheck // names the path
	case tar.TypeSymlink:
		return root.Symlink(entry.Linkname, name) //nolint:wrapcheck // names the path
	case tar.TypeLink:
		return root.Link(entry.Linkname, name) //nolint:wrapcheck // names the path
	case tar.TypeReg:
		file, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, entry.FileInfo().Mode().Perm())
		if err != nil {
			return err //nolint:wrapcheck // names the path
		}
		_, err = io.Copy(file, io.LimitReader(content, entry.Size))
		return errors.Join(err, file.Close())
	default:
		return nil
	}
}
