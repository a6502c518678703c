package localpg

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that the server runs as when the caller is root: initdb and
// postgres refuse root. A nil account is the caller.
type account struct {
	syscall.Credential

	name string
}

// unprivileged returns the account to run the server as: nil unless the caller is root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // "no other account" is an answer here, not a failure
	}
	for _, name := range []string{"postgres", "_postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return &account{syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, name}, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and neither a user postgres nor a user nobody exists: " +
		"create one")
}

// credential returns what the child processes run as; nil means as the caller.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &a.Credential
}

// Own makes the user that a server runs as the owner of a file or folder. A nil who
// changes nothing.
func Own(who *syscall.Credential, path string) error {
	if who == nil {
		return nil
	}
	if err := os.Lchown(path, int(who.Uid), int(who.Gid)); err != nil {
		return fmt.Errorf("give %s to the user %d: %w", path, who.Uid, err)
	}
	return nil
}

// canEnter returns the first folder on the way to path, path included, that the account
// may not enter, or "".
func (a *account) canEnter(path string) (blocked string, err error) {
	if a == nil {
		return "", nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("look at %s: %w", path, err)
	}
	if parent := filepath.Dir(path); parent != path {
		if blocked, err := a.canEnter(parent); blocked != "" || err != nil {
			return blocked, err
		}
	}
	if !a.mayEnter(info) {
		return path, nil
	}
	return "", nil
}

// mayEnter reports whether the account has the execute permission of a folder.
func (a *account) mayEnter(info os.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	bit := os.FileMode(0o001)
	switch {
	case owner.Uid == a.Uid:
		bit = 0o100
	case owner.Gid == a.Gid:
		bit = 0o010
	}
	return info.Mode().Perm()&bit != 0
}

// Unprivileged returns the user as whom root runs servers that refuse root, such as
// postgres and pgbouncer: the user postgres or else the user nobody, without further groups. For
// any other caller it returns nil. It fails when root has no such user.
func Unprivileged() (*syscall.Credential, error) {
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	return who.credential(), nil
}
