package sqldb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mysqlEngine is MySQL and MariaDB by go-sql-driver/mysql. What it does otherwise
// than PostgreSQL:
//
//   - A statement that fails leaves the transaction open, so the connection
//     refuses the rest of it (errDoomed).
//   - Parameters are filled in on this side: one round trip a statement, and no
//     statement is prepared.
//   - Lock waits are bounded in whole seconds, rounded up; they and the statement
//     timeout are the session's, told when they change. A statement is bounded by
//     the server on MariaDB; on MySQL, which bounds only SELECT, by the client.
//   - A lost COMMIT stays Unknown: no server of the family can be asked.
//   - RowsAffected counts the rows found, not those changed.
type mysqlEngine struct{}

const mysqlPort = "3306"

// mysqlConfig is the driver's configuration of a URL that has passed the checks:
// mysql://user:password@host:3306/database, with tls=... and socket=/path as the
// only parameters.
func mysqlConfig(rawURL string) (*mysql.Config, error) {
	parsed, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		return nil, errors.New("the database URL has a parameter that cannot be decoded")
	}
	cfg := mysql.NewConfig()
	cfg.User = parsed.User.Username()
	cfg.Passwd, _ = parsed.User.Password()
	cfg.DBName = strings.TrimPrefix(parsed.Path, "/")
	cfg.Net, cfg.Addr = "tcp", parsed.Host
	if parsed.Port() == "" {
		cfg.Addr = net.JoinHostPort(parsed.Hostname(), mysqlPort)
	}
	if query.Has("tls") && query.Has("socket") {
		return nil, errors.New("the database URL has both tls and socket: a Unix socket needs no encryption")
	}
	// Encrypted wherever the server can; who wants it verified asks for tls=true.
	cfg.TLSConfig = "preferred"
	for name := range query {
		switch value := query.Get(name); name {
		case "tls":
			cfg.TLSConfig = value
		case "socket":
			cfg.Net, cfg.Addr, cfg.TLSConfig = "unix", value, "false"
		default:
			return nil, fmt.Errorf("the database URL has a parameter %q: mysql:// takes tls and socket alone", name)
		}
	}
	switch {
	case cfg.DBName == "" || strings.Contains(cfg.DBName, "/"):
		return nil, errors.New("the database URL must name a database: mysql://user:password@host:3306/name")
	case cfg.Net == "tcp" && parsed.Hostname() == "":
		return nil, errors.New("the database URL must name a host: mysql://user:password@host:3306/name")
	}
	cfg.ClientFoundRows = true
	cfg.InterpolateParams = true
	cfg.ParseTime = true
	cfg.Timeout = defaultConnectTimeout
	cfg.Logger = &mysql.NopLogger{} // every error comes back; the driver's own lines would bypass the log
	cfg.DialFunc = newDialer().DialContext
	return cfg, nil
}

func (mysqlEngine) connector(s Settings) (*connector, error) {
	if s.Pooler != PoolerNone {
		return nil, fmt.Errorf("the pooler %q is PostgreSQL's: with mysql:// it must be %q", s.Pooler, PoolerNone)
	}
	c, err := mysqlEngine{}.plainConnector(s.URL)
	if err != nil {
		return nil, err
	}
	c.guard = s.StatementTimeout + Grace
	c.settings = mysqlEngine{}.sessionSettings(s, &txOptions{})
	return c, nil
}

func (mysqlEngine) plainConnector(rawURL string) (*connector, error) {
	cfg, err := mysqlConfig(rawURL)
	if err != nil {
		return nil, err
	}
	inner, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("the database URL cannot be used: %w", err)
	}
	return &connector{Connector: inner, dooms: true, handshake: defaultConnectTimeout, greeting: mysqlGreeting()}, nil
}

// mysqlGreeting is what every session is told first. A server may come with
// autocommit=0, and a single statement would never be committed; with a
// completion_type that begins the next transaction at once; or with an UPDATE
// refused that names no key. The isolation's variable has another name on either
// server (tx_isolation, transaction_isolation); the statement has not.
func mysqlGreeting() []string {
	return []string{
		"SET autocommit = 1, completion_type = 0, sql_safe_updates = 0",
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
	}
}

// sessionSettings is one SET for both servers: each reads the other's part as a
// comment. An idle transaction is ended by MariaDB alone; MySQL ends the session of
// a client that is silent for longer than the pool keeps idle connections.
func (mysqlEngine) sessionSettings(s Settings, o *txOptions) string {
	lock, statement, idle := o.timeouts(s)
	return "SET innodb_lock_wait_timeout = " + seconds(lock) + ", lock_wait_timeout = " + seconds(lock) +
		" /*M! , max_statement_time = " + strconv.FormatFloat(statement.Seconds(), 'f', 3, 64) +
		", idle_transaction_timeout = " + seconds(idle) + " */" +
		" /*!80000 , max_execution_time = " + Milliseconds(statement) + ", wait_timeout = " + seconds(2*connMaxIdleTime) + " */"
}

// seconds is d in whole seconds, rounded up: 0 would mean not to wait at all.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64((d+time.Second-1)/time.Second)), 10)
}

func (mysqlEngine) localSettings(Settings, *txOptions) string { return "" }

func (mysqlEngine) resolves() bool { return false }

// mysqlSettings is what warnings looks at.
type mysqlSettings struct {
	Flush      int  `db:"flush"`
	BinLog     bool `db:"log_bin"`
	SyncBinLog int  `db:"sync_binlog"`
	Super      bool `db:"super"`
}

const readMySQLSettings = `SELECT @@innodb_flush_log_at_trx_commit AS flush, @@log_bin AS log_bin, @@sync_binlog AS sync_binlog,
       EXISTS (SELECT 1 FROM information_schema.user_privileges
                WHERE privilege_type = 'SUPER'
                  AND grantee = concat('''', replace(current_user(), '@', '''@'''), '''')) AS super`

func (mysqlEngine) warnings(ctx context.Context, db *DB) ([]string, error) {
	var s mysqlSettings
	if err := db.GetContext(ctx, &s, readMySQLSettings); err != nil {
		return nil, err
	}
	var advice []string
	if s.Flush != 1 {
		advice = append(advice, "the database runs with innodb_flush_log_at_trx_commit="+strconv.Itoa(s.Flush)+
			": a crash loses changes that were confirmed")
	}
	if s.BinLog && s.SyncBinLog != 1 {
		advice = append(advice, "the database runs with sync_binlog="+strconv.Itoa(s.SyncBinLog)+
			": after a crash its replicas may lack changes that were confirmed")
	}
	if s.Super {
		advice = append(advice, superuserAdvice)
	}
	return advice, nil
}
