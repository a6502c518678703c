package sqldb

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/config"
)

// postgresEngine implements engine for PostgreSQL by lib/pq.
type postgresEngine struct{}

func (postgresEngine) connector(s Settings) (*connector, error) {
	cfg, file, ignored, err := postgresConfig(s)
	if err != nil {
		return nil, err
	}

	inner, err := withPassword(file, cfg.Password, func(password string) (driver.Connector, error) {
		own := cfg
		own.Password = password
		made, err := pq.NewConnectorConfig(own)
		if err != nil {
			return nil, err
		}
		made.Dialer(newDialer())
		return made, nil
	})
	if err != nil {
		return nil, err
	}
	return &connector{
		Connector: inner, database: cfg.Database, ignored: ignored, notices: true, prepare: s.Pooler == PoolerNone,
	}, nil
}

// postgresConfig checks a URL and returns the driver's configuration of it, the file with the password, and the names
// of the parameters that it ignores.
func postgresConfig(s Settings) (cfg pq.Config, file string, ignored []string, err error) {
	_, query, err := parseURL(s.URL)
	if err != nil {
		return cfg, "", nil, err
	}
	trimVariables()
	if cfg, err = pq.NewConfig(s.URL); err != nil {
		return cfg, "", nil, fmt.Errorf("the database URL cannot be used: %w", err)
	}
	delete(cfg.Runtime, passwordFile) // the server has no such setting
	if ignored, err = dropForeign(cfg.Runtime); err != nil {
		return cfg, "", nil, err
	}

	// The driver puts an IPv6 address into brackets itself, and leaves those that PGHOST or a URL without a port has.
	cfg.Host = strings.Trim(cfg.Host, "[]")
	for i, other := range cfg.Multi {
		cfg.Multi[i].Host = strings.Trim(other.Host, "[]")
	}
	onSocket := strings.HasPrefix(cfg.Host, "/") || strings.HasPrefix(cfg.Host, "@") // there is no TLS
	if !query.Has("sslmode") && !onSocket {
		return cfg, "", nil, errors.New("the database URL must say sslmode=disable, require, verify-ca or verify-full: " +
			"the driver's default changes between versions")
	}
	if err := checkTarget(cfg); err != nil {
		return cfg, "", nil, err
	}

	if cfg.ConnectTimeout <= 0 {
		cfg.ConnectTimeout = defaultConnectTimeout
	}
	cfg.ApplicationName = cmp.Or(query.Get("application_name"), s.ApplicationName, cfg.ApplicationName)
	switch s.Pooler {
	case PoolerTransaction:
		err = checkPooled(&cfg)
	case PoolerNone:
		// One round trip a statement instead of two.
		cfg.BinaryParameters = cfg.BinaryParameters || !query.Has("binary_parameters")
		cfg.TargetSessionAttrs = cmp.Or(cfg.TargetSessionAttrs, pq.TargetSessionAttrsReadWrite)
		cfg.Runtime, err = startupParameters(s, cfg.Runtime)
	default:
		// A plain connector's URL may lead to a pooler. That requires this, and without one it is harmless. A pooler
		// cannot be asked whether it takes changes; of several hosts none is one.
		cfg.BinaryParameters = true
		if len(cfg.Multi) > 0 {
			cfg.TargetSessionAttrs = cmp.Or(cfg.TargetSessionAttrs, pq.TargetSessionAttrsReadWrite)
		}
	}
	return cfg, query.Get(passwordFile), ignored, err
}

// trimVariables cuts line breaks off the end of the variables that the driver reads, such as PGPASSWORD: secrets often
// end with one.
func trimVariables() {
	for name, value := range config.Environ() {
		trimmed := strings.TrimRight(value, "\r\n")
		if strings.HasPrefix(name, "PG") && trimmed != value {
			_ = os.Setenv(name, trimmed) // cannot fail: the variable exists, and its value has become shorter
		}
	}
}

// dropForeign removes from the settings of a URL those that the server does not know and the driver does not obey:
// libpq's, and Prisma's pgbouncer. It returns their names, and an error for one whose loss the caller would not accept,
// such as a demand on how the server proves its identity.
func dropForeign(settings map[string]string) (ignored []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		demanded := false
		switch name {
		case "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
			"ssl", "sslcompression", "sslkeylogfile", "gsslib", "gssdelegation", "pgbouncer":
		case "channel_binding", "gssencmode", "sslcertmode":
			demanded = settings[name] == "require"
		case "require_auth", "requirepeer", "sslcrl", "sslcrldir", "sslpassword", "scram_client_key", "scram_server_key",
			"oauth_issuer", "oauth_client_id", "oauth_client_secret", "oauth_scope", "replication", "servicefile":
			demanded = true
		default:
			continue
		}

		if demanded {
			return nil, fmt.Errorf("the database URL demands %s, which the driver cannot do: leave it out; "+
				"sslmode=verify-full encrypts and verifies the server's identity", name)
		}
		delete(settings, name)
		ignored = append(ignored, name)
	}
	return ignored, nil
}

// startupParameters returns the settings that are sent once per connection, in its
// first message. given are those of the URL.
func startupParameters(s Settings, given map[string]string) (map[string]string, error) {
	params := map[string]string{
		"lock_timeout":                        Milliseconds(s.LockTimeout),
		"statement_timeout":                   Milliseconds(s.StatementTimeout),
		"idle_in_transaction_session_timeout": Milliseconds(idleTxTimeout),
		"client_connection_check_interval":    Milliseconds(clientCheckInterval),
		"default_transaction_isolation":       "read committed", // for single statements: a transaction sets its own
		"client_min_messages":                 "warning",        // see unreplicated.go
	}
	maps.Copy(params, s.Session)
	if s.Cluster == ClusterCitus {
		delete(params, "plan_cache_mode")
	}

	for name, value := range given {
		switch name {
		case "lock_timeout", "statement_timeout":
			return nil, fmt.Errorf("the database URL sets %s, which has a setting of its own: the two would disagree",
				name)
		case "client_min_messages":
			return nil, errors.New("the database URL sets client_min_messages: " +
				"the server's warning of a change that no standby has must arrive")
		}
		params[name] = value
	}
	return params, nil
}

func (postgresEngine) sessionSettings(Settings, *options) string { return "" }

// beginSQL begins a transaction as lib/pq does, and sets what its options ask for and, behind a pooler, what would be
// settings of the session. Citus passes on to its workers what is set after that was asked for: the whole message, so
// BEGIN is another one.
func (postgresEngine) beginSQL(s Settings, o *options) []string {
	lock, statement, idle := o.lockTimeout, o.statementTimeout, time.Duration(0)
	if s.Pooler == PoolerTransaction {
		lock, statement = o.timeouts(s)
		idle = idleTxTimeout
	}
	local := setLocal("lock_timeout", lock) + setLocal("statement_timeout", statement) +
		setLocal("idle_in_transaction_session_timeout", idle)
	if o.statementTimeout > 0 { // the transaction may last longer than others, and the role may not expect it
		local += "SELECT set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout';" // of PostgreSQL 17
	}
	const begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
	if local != "" && s.Cluster == ClusterCitus {
		return []string{begin, "SET LOCAL citus.propagate_set_commands = 'local';" + local}
	}
	return []string{begin + local}
}

func setLocal(name string, d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return "SET LOCAL " + name + " = " + Milliseconds(d) + ";"
}
