package localpg

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	// memoryFolder is a file system in memory, where there is one.
	memoryFolder = "/dev/shm"
	// memoryRoom is how many bytes must be free there, and of the machine's memory, for a server of tests to go into it.
	memoryRoom = 6 << 30
)

// TempFolder makes a folder for a server that is worth nothing without this process, open to the account that the server runs as. It
// lies in memory where there is plenty: a test's database is some 300 files, which a file system on disk makes and removes in six times
// the processor time. Elsewhere it lies in [os.TempDir]. The pattern is that of [os.MkdirTemp].
func TempFolder(pattern string) (string, error) {
	parent := ""
	if roomy(memoryFolder) {
		parent = memoryFolder
	}
	dir, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return "", fmt.Errorf("make a folder for the server: %w", err)
	}
	// Root's server runs as another user, who has to get through. The cluster in it is 0700.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // as above
		return "", fmt.Errorf("open the server's folder: %w", err)
	}
	return dir, nil
}

// TempFolders are the folders in which TempFolder makes its own.
func TempFolders() []string { return []string{os.TempDir(), memoryFolder} }

// roomy tells whether a file system in memory has memoryRoom, and the machine too.
func roomy(path string) bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < memoryRoom { //nolint:gosec // a size
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
