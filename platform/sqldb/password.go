package sqldb

import (
	"context"
	"database/sql/driver"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// passwordFile is the parameter of a database URL that names a file with the password.
const passwordFile = "password_file"

// passwordConnector reads the password out of a file for each connection, so that a changed
// one counts without a restart.
type passwordConnector struct {
	driver.Connector // has no password, and does not connect

	file string
	with func(password string) (driver.Connector, error)
	last atomic.Pointer[string] // the password of the last connection; nil before the first
}

// withPassword returns the driver's connector for a password, or for the one in the file if
// there is a file.
func withPassword(
	file, password string, with func(password string) (driver.Connector, error),
) (driver.Connector, error) {
	made, err := with(password)
	if err != nil {
		return nil, fmt.Errorf("the database URL cannot be used: %w", err)
	}
	if file == "" {
		return made, nil
	}
	return &passwordConnector{Connector: made, file: file, with: with}, nil
}

// Connect opens a connection with the password in the file, without the line break at its
// end. If the server refuses it, Connect tries the password of the connection before: the
// file may change before the role does. It also does if the file cannot be read: Kubernetes
// exchanges its folder.
func (c *passwordConnector) Connect(ctx context.Context) (driver.Conn, error) {
	last := c.last.Load()
	content, err := os.ReadFile(c.file)
	if err == nil {
		password := strings.TrimRight(string(content), "\r\n")
		var made driver.Conn
		if made, err = c.connect(ctx, password); err == nil {
			c.last.Store(&password)
			return made, nil
		}
		if r, _ := answered(err); !r.refused || last != nil && *last == password {
			return nil, err
		}
	}

	if last != nil {
		if made, failed := c.connect(ctx, *last); failed == nil {
			return made, nil
		}
	}
	return nil, err
}

func (c *passwordConnector) connect(ctx context.Context, password string) (driver.Conn, error) {
	made, err := c.with(password)
	if err != nil {
		return nil, err
	}
	return made.Connect(ctx)
}
