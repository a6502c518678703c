package local

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Migrate runs `<binary> migrate` with the environment. The error holds the last line that it printed.
func Migrate(ctx context.Context, binary string, environ map[string]string) error {
	cmd := exec.CommandContext(ctx, binary, "migrate")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = Variables(environ)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return fmt.Errorf("%s migrate: %w (%s)", filepath.Base(binary), err, lines[len(lines)-1])
	}
	return nil
}
