package guest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lib/pq"
)

// RefusalError is why a server cannot take the run: a sentence for the person who named it.
type RefusalError struct{ text string }

func (r RefusalError) Error() string { return r.text }

func refuse(format string, args ...any) error { return RefusalError{fmt.Sprintf(format, args...)} }

// Server is the one that somebody named.
type Server struct {
	url  url.URL // for the administrator, in the database that was named
	name string  // "host:port"
	tls  *tls.Config
	password,
	user string

	facts       facts // once Look has come back
	connections int   // that the run may open, as Look was told
}

// The parameters of the URL that mean something here. With any other one the run
// would not do what the URL says: its own programs do not all take it.
const (
	sslMode     = "sslmode"
	sslRootCert = "sslrootcert"
	sslCert     = "sslcert"
	sslKey      = "sslkey"
	connectWait = "connect_timeout"
)

// form is what a URL must look like.
const form = "postgres://user@host:5432/database?sslmode=disable"

// Parse reads a URL of form postgres://user:password@host:port/database?sslmode=...;
// name and password may also come from the driver's usual places (PGUSER, PGPASSWORD,
// ~/.pgpass). The error is a [RefusalError].
func Parse(dsn string) (*Server, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Opaque != "" || u.Fragment != "" {
		return nil, refuse("it is no URL of the form %s", form) // what url.Parse says repeats the password
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, refuse("it is no URL of the form %s", form)
	}
	if host := u.Hostname(); host == "" || strings.ContainsAny(host, ",/") {
		return nil, refuse("it must name one host, reached by TCP: the run's proxies stand before it")
	}
	known := []string{sslMode, sslRootCert, sslCert, sslKey, connectWait}
	for name := range query {
		if !slices.Contains(known, name) {
			return nil, refuse("the run cannot heed the parameter %q; it knows %s", name, strings.Join(known, ", "))
		}
	}
	if mode := query.Get(sslMode); !slices.Contains([]string{"disable", "require", "verify-ca", "verify-full"}, mode) {
		return nil, refuse("it must say sslmode=disable, require, verify-ca or verify-full")
	}
	s := &Server{url: *u}
	if err := s.resolve(query); err != nil {
		return nil, err
	}
	return s, nil
}

// resolve writes into the URL what the driver would take from elsewhere, for the
// programs that do not look there.
func (s *Server) resolve(query url.Values) error {
	cfg, err := pq.NewConfig(s.url.String())
	if err != nil {
		return refuse("the driver cannot use it, or one of the variables PG... that go with it") // its error may quote the password
	}
	// The proxies and pgbouncer would go to the host of the URL all the same.
	if cfg.Hostaddr.IsValid() || cfg.Service != "" {
		return refuse("PGHOSTADDR and PGSERVICE must not be set: the URL alone says which server it is")
	}
	s.user, s.password = cfg.User, cfg.Password
	s.name = net.JoinHostPort(s.url.Hostname(), strconv.Itoa(int(cfg.Port)))
	s.url.Host = s.name
	if !query.Has(connectWait) {
		query.Set(connectWait, strconv.Itoa(int(connectTimeout.Seconds())))
	}
	if query.Get(sslMode) != "disable" {
		for name, value := range map[string]string{
			sslRootCert: orAtHome(cfg.SSLRootCert, "root.crt"),
			sslCert:     orAtHome(cfg.SSLCert, "postgresql.crt"), sslKey: orAtHome(cfg.SSLKey, "postgresql.key"),
		} {
			if value != "" {
				query.Set(name, value)
			}
		}
		// The driver, too, takes it so.
		if query.Get(sslMode) == "require" && query.Get(sslRootCert) != "" {
			query.Set(sslMode, "verify-ca")
		}
	}
	s.url.RawQuery = query.Encode()
	s.tls, err = tlsConfig(query, s.url.Hostname())
	return err
}

// orAtHome is where the driver looks for a file that is not named.
func orAtHome(named, file string) string {
	home, err := os.UserHomeDir()
	if named != "" || err != nil {
		return named
	}
	path := filepath.Join(home, ".postgresql", file)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// TLS is how the run's proxies speak to the server; nil: without TLS.
func (s *Server) TLS() *tls.Config { return s.tls }

// tlsConfig is what the parameters mean, as PostgreSQL's manual has it.
func tlsConfig(query url.Values, host string) (*tls.Config, error) {
	mode, root := query.Get(sslMode), query.Get(sslRootCert)
	if mode == "disable" {
		return nil, nil //nolint:nilnil // "no TLS" is an answer here, not a failure
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if root != "" && root != "system" {
		text, err := os.ReadFile(root)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, refuse("sslrootcert names %s, from which no certificate can be read", root)
		}
	}
	if cert := query.Get(sslCert); cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, query.Get(sslKey))
		if err != nil {
			return nil, refuse("sslcert and sslkey name %s and %s, which are no certificate with its key", cert, query.Get(sslKey))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if mode == "verify-full" {
		return config, nil
	}
	config.InsecureSkipVerify = true // require asks for no more than encryption
	if mode == "verify-ca" {
		config.VerifyConnection = func(state tls.ConnectionState) error { return verifyChain(state, config.RootCAs) }
	}
	return config, nil
}

// verifyChain looks who has signed the server's certificate, and not at its name.
func verifyChain(state tls.ConnectionState, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errors.New("the server shows no certificate")
	}
	between := x509.NewCertPool()
	for _, one := range state.PeerCertificates[1:] {
		between.AddCert(one)
	}
	if _, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between}); err != nil {
		return fmt.Errorf("the server's certificate: %w", err)
	}
	return nil
}

// admin is the URL for the administrator, in a database.
func (s *Server) admin(database string) string {
	u := s.url
	u.Path = "/" + database
	return u.String()
}
