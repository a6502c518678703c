package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/lib/pq"
)

// parse checks the URL and writes into it what the driver would take from the environment.
// It returns how the run's proxies connect to the server, too; nil is without TLS.
func parse(dsn string) (*url.URL, *tls.Config, error) {
	u, err := url.Parse(dsn)
	if err != nil || !slices.Contains([]string{"postgres", "postgresql"}, u.Scheme) ||
		u.Hostname() == "" || strings.ContainsAny(u.Host, ",/") {
		// err repeats the password.
		const form = "postgres://user@host:5432/database?sslmode=disable"
		return nil, nil, errors.New("it is no URL of the form " + form + " with one host")
	}
	query := u.Query()
	for name := range query {
		if !slices.Contains([]string{"sslmode", "sslrootcert", "connect_timeout"}, name) {
			return nil, nil, fmt.Errorf("the parameter %q is not supported: not every program of the run would heed it", name)
		}
	}
	cfg, err := pq.NewConfig(dsn)
	if err != nil {
		// err may repeat the password.
		return nil, nil, errors.New("the driver cannot use it, or one of the variables PG... that go with it")
	}
	if cfg.Hostaddr.IsValid() || cfg.Service != "" {
		return nil, nil, errors.New("PGHOSTADDR and PGSERVICE must not be set: the URL alone names the server")
	}
	if u.User = url.User(cfg.User); cfg.Password != "" { // else ~/.pgpass may have one
		u.User = url.UserPassword(cfg.User, cfg.Password)
	}
	u.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(int(cfg.Port)))
	secure, err := tlsConfig(query, u.Hostname())
	return u, secure, err
}

func tlsConfig(query url.Values, host string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	switch query.Get("sslmode") {
	case "disable":
		return nil, nil //nolint:nilnil // no TLS is an answer here
	case "require":
		config.InsecureSkipVerify = true // encryption without a check of the server's name
		return config, nil
	case "verify-full":
	default:
		return nil, errors.New("it must say sslmode=disable, require or verify-full")
	}
	if root := query.Get("sslrootcert"); root != "" && root != "system" {
		text, err := os.ReadFile(root)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("sslrootcert names %s, from which no certificate can be read", root)
		}
	}
	return config, nil
}
