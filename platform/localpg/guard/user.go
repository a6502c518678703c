package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// User is an account that runs programs. A nil *User is the caller's account.
type User struct {
	Name     string
	uid, gid uint32
}

// Unprivileged returns the account with which root runs servers that refuse root, such as postgres and
// pgbouncer: postgres or else the user nobody, without supplementary groups. It returns nil for other callers. It
// fails if root has no such account.
func Unprivileged() (*User, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "_postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(found.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(found.Gid, 10, 32)
		if uidErr == nil && gidErr == nil && uid != 0 {
			return &User{name, uint32(uid), uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is neither a user postgres nor a user nobody: " +
		"create one")
}

func (u *User) credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.uid, Gid: u.gid}
}

// Own makes the user the owner of a file or folder.
func (u *User) Own(path string) error {
	if u == nil {
		return nil
	}
	if err := os.Lchown(path, int(u.uid), int(u.gid)); err != nil {
		return fmt.Errorf("give %s to the user %s: %w", path, u.Name, err)
	}
	return nil
}

// WriteFile writes a file that only the user and root can read.
func (u *User) WriteFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return u.Own(path)
}

// MayEnter reports whether the user can enter the folder. It ignores the end of ctx.
func (u *User) MayEnter(ctx context.Context, dir string) bool {
	if u == nil {
		return true
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), shell, "-c", ":")
	cmd.Dir = dir // entered as the user
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: u.credential()}
	return cmd.Run() == nil
}
