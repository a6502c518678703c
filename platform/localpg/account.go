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

// account is whom the server runs as when the caller is root: initdb and postgres refuse root.
type account struct {
	name     string
	uid, gid uint32
}

// unprivileged returns the account to run the server as; nil when the caller is not root and runs it as himself.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // "no other account" is an answer here, not a failure
	}
	for _, name := range []string{"postgres", "_postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(found.Uid, 10, 32)
		if err != nil || uid == 0 {
			continue
		}
		gid, err := strconv.ParseUint(found.Gid, 10, 32)
		if err != nil {
			continue
		}
		return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and neither a user postgres nor a user nobody exists: create one")
}

// credential is what the child processes run as; nil means as the caller.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// own gives a file or folder to the account.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	if err := os.Lchown(path, int(a.uid), int(a.gid)); err != nil {
		return fmt.Errorf("give %s to the user %s: %w", path, a.name, err)
	}
	return nil
}

// canEnter returns the first folder on the way to path, path included, that the account may not enter; empty: it can.
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

func (a *account) mayEnter(info os.FileInfo) bool {
	execute := info.Mode().Perm()
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	switch {
	case owner.Uid == a.uid:
		return execute&0o100 != 0
	case owner.Gid == a.gid:
		return execute&0o010 != 0
	default:
		return execute&0o001 != 0
	}
}

// Unprivileged is whom root runs servers as that refuse root, such as postgres and pgbouncer: the user postgres or else nobody, without
// further groups. It is nil for everybody else, who runs them as himself. An error says that root has no such user.
func Unprivileged() (*syscall.Credential, error) {
	who, err := unprivileged()
	if err != nil {
		return nil, err
	}
	return who.credential(), nil
}
