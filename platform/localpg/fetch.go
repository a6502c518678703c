package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

const (
	mavenCentral = "https://repo1.maven.org/maven2"
	// fetched is the version to download: the newest that runs on Apple silicon without translation.
	fetched      = "17.5.0"
	fetchedMajor = 17
)

// programs returns the installation that runs the cluster in dir: an existing cluster needs its own
// major version, a new one takes the newest.
func programs(ctx context.Context, o Options, dir string, who *account) (installation, error) {
	want := clusterMajor(dir)
	bin, err := choose(ctx, o, want)
	if errors.Is(err, ErrNotFound) {
		if want != 0 && want != fetchedMajor {
			return bin, fmt.Errorf("the cluster in %s was made by PostgreSQL %d, which is not installed any more: "+
				"install it, or remove the folder", dir, want)
		}
		bin, err = fetch(ctx, o)
	}
	if err != nil {
		return bin, err
	}
	if want != 0 && bin.major != want {
		return bin, fmt.Errorf("the cluster in %s was made by PostgreSQL %d, but %s holds %d: "+
			"install %d, or remove the folder", dir, want, bin.binDir, bin.major, want)
	}
	if blocked, err := who.canEnter(bin.binDir); err != nil || blocked != "" {
		return bin, errors.Join(err,
			fmt.Errorf("the user %s, as whom PostgreSQL runs for root, may not enter %s", who.name, blocked))
	}
	return bin, nil
}

// choose returns the installation of the wanted major version, or else the newest.
func choose(ctx context.Context, o Options, want int) (installation, error) {
	found, err := find(ctx, o.Environ, o.folders)
	if err != nil {
		return installation{}, err
	}
	for _, one := range found {
		if one.major == want {
			return one, nil
		}
	}
	return found[0], nil
}

// fetch returns the server's programs from the user's cache, and downloads them first if necessary.
func fetch(ctx context.Context, o Options) (installation, error) {
	cache, err := cacheDir(o.Environ)
	if err != nil {
		return installation{}, err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil { //nolint:gosec // programs for everybody, as in /usr/lib
		return installation{}, fmt.Errorf("make the cache for PostgreSQL: %w", err)
	}
	// One download at a time: concurrent callers wait here and find it complete.
	lock, err := acquire(ctx, cache)
	for errors.Is(err, ErrInUse) && ctx.Err() == nil { // acquire has waited for a second
		lock, err = acquire(ctx, cache)
	}
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
	if err := download(ctx, repository, cache, home); err != nil {
		return installation{}, fmt.Errorf("no PostgreSQL server is installed and none could be downloaded (%w): %s",
			err, howToInstall)
	}
	return inspect(ctx, bin)
}

// download fetches the archive, checks it against its published SHA-256, unpacks it and moves it to home.
func download(ctx context.Context, repository, cache, home string) (err error) {
	archive, err := fetchArchive(ctx, repository)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return fmt.Errorf("make a folder for the download: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.Chmod(work, 0o755); err != nil { //nolint:gosec // becomes the home of the programs by a rename
		return fmt.Errorf("open the download's folder: %w", err)
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

// cacheDir returns the folder of downloaded programs: the user's cache, or for root the system's,
// because the server's account may not enter root's.
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
