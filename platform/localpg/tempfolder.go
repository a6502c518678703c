package localpg

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	// memoryFolder is a file system in memory, where the system has one.
	memoryFolder = "/dev/shm"
	// memoryRoom is how many bytes must be free there, and of the machine's memory, to use it.
	memoryRoom = 6 << 30
)

// TempFolder makes a folder for a temporary server, which the account that the server runs as can
// enter. It lies in memory where enough is free: a test's database is some 300 files, which a file
// system on disk creates and removes in six times the processor time. Otherwise it lies in
// [os.TempDir]. The pattern is that of [os.MkdirTemp].
func TempFolder(pattern string) (string, error) {
	parent := ""
	if roomy(memoryFolder) {
		parent = memoryFolder
	}
	dir, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return "", fmt.Errorf("make a folder for the server: %w", err)
	}
	// Root's server runs as another user, which must be able to enter. The cluster in it is 0700.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // as above
		return "", fmt.Errorf("open the server's folder: %w", err)
	}
	return dir, nil
}

// TempFolders returns the folders in which TempFolder makes its own.
func TempFolders() []string { return []string{os.TempDir(), memoryFolder} }

// roomy reports whether a file system in memory has memoryRoom free, and the machine too.
func roomy(path string) bool {
	var fs syscall.Statfs_t
	err := syscall.Statfs(path, &fs)
	if err != nil || fs.Bavail*uint64(fs.Bsize) < memoryRoom { //nolint:gosec // a size
		return false
	}
	for line := range strings.Lines(readFile("/proc/meminfo")) {
		if rest, found := strings.CutPrefix(line, "MemAvailable:"); found {
			kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return err == nil && kib<<10 >= memoryRoom
		}
	}
	return false
}
