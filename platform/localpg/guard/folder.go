package guard

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

const (
	// memoryFolder is a file system in memory, if the system has one.
	memoryFolder = "/dev/shm"
	// memoryRoom is how many bytes must be free there, and in the machine's memory, to use it.
	memoryRoom = 6 << 30
)

// TempFolder creates a folder for a temporary server below parent, which every user can enter. Without
// a parent it uses memory if enough is free: a test's database has about 300 files, and a file system on
// disk needs six times the processor time to create and remove them. Else it uses [os.TempDir]. The
// pattern is for [os.MkdirTemp].
func TempFolder(parent, pattern string) (string, error) {
	if parent == "" && roomy(memoryFolder) {
		parent = memoryFolder
	}
	dir, err := os.MkdirTemp(parent, pattern)
	if err != nil {
		return "", fmt.Errorf("make a folder for the server: %w", err)
	}

	// Root's server runs as another user, which must be able to enter.
	if err := os.Chmod(dir, 0o711); err != nil {
		return "", errors.Join(fmt.Errorf("open the server's folder: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
}

// roomy reports whether a file system in memory and the machine both have memoryRoom free.
func roomy(path string) bool {
	var fs syscall.Statfs_t
	err := syscall.Statfs(path, &fs)
	if err != nil || fs.Bavail*uint64(fs.Bsize) < memoryRoom {
		return false
	}

	text, _ := os.ReadFile("/proc/meminfo") // without it no line is found
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "MemAvailable:"); found {
			kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return err == nil && kib<<10 >= memoryRoom
		}
	}
	return false
}
