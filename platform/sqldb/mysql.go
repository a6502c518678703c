package sqldb

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mysqlEngine implements engine for MySQL and MariaDB by go-sql-driver/mysql. It
// differs from PostgreSQL:
//
//   - A statement that fails leaves the transaction open, so the connection
//     refuses the rest of it (errTxFailed).
//   - The driver puts parameters into the statement: one round trip a statement, and
//     no statement is prepared.
//   - Lock waits are bounded in whole seconds, rounded up; they and the statement
//     timeout are settings of the session, sent when they change. A statement is bounded by
//     the server on MariaDB; on MySQL, which bounds only SELECT, by the client.
//   - A lost COMMIT stays Unknown: these servers cannot be asked.
//   - RowsAffected counts the rows found, not those changed.
type mysqlEngine struct{}

const mysqlPort = "3306"

// mysqlConfig checks a URL and returns the driver's configuration of it:
// mysql://user:password@host:3306/database, with tls=..., socket=/path and
// password_file=/path, which is returned too, as the only parameters.
func mysqlConfig(rawURL string) (cfg *mysql.Config, file string, err error) {
	parsed, query, err := parseURL(rawURL)
	if err != nil {
		return nil, "", err
	}

	cfg = mysql.NewConfig()
	cfg.User = parsed.User.Username()
	cfg.Passwd, _ = parsed.User.Password()
	cfg.DBName = strings.TrimPrefix(parsed.Path, "/")
	cfg.Net, cfg.Addr = "tcp", parsed.Host
	if parsed.Port() == "" {
		cfg.Addr = net.JoinHostPort(parsed.Hostname(), mysqlPort)
	}

	if query.Has("tls") && query.Has("socket") {
		return nil, "", errors.New("the database URL has both tls and socket: a Unix socket needs no encryption")
	}
	// Encrypted wherever the server can; tls=true verifies the certificate too.
	cfg.TLSConfig = "preferred"
	for name := range query {
		switch value := query.Get(name); name {
		case "tls":
			cfg.TLSConfig = value
		case "socket":
			cfg.Net, cfg.Addr, cfg.TLSConfig = "unix", value, "false"
		case passwordFile:
			file = value
		default:
			return nil, "", fmt.Errorf(
				"the database URL has a parameter %q: mysql:// takes tls, socket and password_file alone", name)
		}
	}

	switch {
	case cfg.DBName == "" || strings.Contains(cfg.DBName, "/"):
		return nil, "", errors.New("the database URL must name a database: mysql://user:password@host:3306/name")
	case cfg.Net == "tcp" && parsed.Hostname() == "":
		return nil, "", errors.New("the database URL must name a host: mysql://user:password@host:3306/name")
	}

	cfg.ClientFoundRows = true
	cfg.InterpolateParams = true
	cfg.ParseTime = true
	cfg.Timeout = defaultConnectTimeout
	cfg.Logger = &mysql.NopLogger{} // every error is returned; the driver's own lines would bypass the log
	cfg.DialFunc = newDialer().DialContext
	return cfg, file, nil
}

func (mysqlEngine) connector(s Settings) (*connector, error) {
	if s.Pooler == PoolerTransaction {
		return nil, fmt.Errorf("the pooler %q is PostgreSQL's: with mysql:// it must be %q", s.Pooler, PoolerNone)
	}
	cfg, file, err := mysqlConfig(s.URL)
	if err != nil {
		return nil, err
	}

	inner, err := withPassword(file, cfg.Passwd, func(password string) (driver.Connector, error) {
		own := cfg.Clone()
		own.Passwd = password
		return mysql.NewConnector(own)
	})
	if err != nil {
		return nil, err
	}

	// A server may default to autocommit=0, with which a single statement would never be
	// committed, to a completion_type that begins the next transaction at once, or to
	// sql_safe_updates, which refuses an UPDATE without a key. The variable of the isolation
	// level differs between the servers (tx_isolation, transaction_isolation); the statement
	// does not.
	c := &connector{
		Connector: inner, database: cfg.DBName, failTx: true, handshake: defaultConnectTimeout,
		initStatements: []string{
			"SET autocommit = 1, completion_type = 0, sql_safe_updates = 0",
			"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		},
	}
	if s.Pooler == PoolerNone {
		c.initStatements = append(c.initStatements, mysqlEngine{}.sessionSettings(s, &options{}))
	}
	return c, nil
}

// sessionSettings returns one SET for both servers: each reads the other's part as a
// comment. Only MariaDB ends an idle transaction; MySQL ends the session of a client
// that is silent for longer than the pool keeps idle connections.
func (mysqlEngine) sessionSettings(s Settings, o *options) string {
	lock, statement := o.timeouts(s)
	return "SET innodb_lock_wait_timeout = " + seconds(lock) + ", lock_wait_timeout = " + seconds(lock) +
		" /*M! , max_statement_time = " + strconv.FormatFloat(statement.Seconds(), 'f', 3, 64) +
		", idle_transaction_timeout = " + seconds(idleTxTimeoutMySQL) + " */" +
		" /*!80000 , max_execution_time = " + Milliseconds(statement) +
		", wait_timeout = " + seconds(2*connMaxIdleTime) + " */"
}

// seconds formats d in whole seconds, rounded up: 0 would mean not to wait at all.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

func (mysqlEngine) beginSQL(Settings, *options) []string { return nil }
