package sqldb_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/localpg/guard"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
)

// A server that demands a certificate of the role's own name takes one whose key is readable as the chart mounts it,
// for root and its group, and is not asked with a key that all may read.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	own, admin := dbtest.TLSServer(t)
	authority, user := newAuthority(t), unprivileged(t)
	data := filepath.Join(own.Dir(), "data")
	err := errors.Join(
		user.WriteFile(filepath.Join(data, "clients.crt"), encode("CERTIFICATE", authority.der)),
		user.WriteFile(filepath.Join(data, "pg_hba.conf"),
			"hostssl all app 127.0.0.1/32 scram-sha-256 clientcert=verify-full\n"+
				"hostssl all all 127.0.0.1/32 scram-sha-256\n"), //nolint:dupword // a row of columns
	)
	if err != nil {
		t.Fatal(err)
	}
	db := open(t, admin)
	for _, statement := range []string{
		"ALTER SYSTEM SET ssl_ca_file = 'clients.crt'", "CREATE ROLE app LOGIN PASSWORD 'secret'", "SELECT pg_reload_conf()",
	} {
		if err := execOnce(t.Context(), db, statement); err != nil {
			t.Fatal(err)
		}
	}
	readable := os.FileMode(0o400)
	if os.Geteuid() == 0 {
		readable = 0o440 // which the driver accepts of root's files alone
	}
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("app", "secret")
	connect := func(certificate, key string) error {
		with, query := *u, u.Query()
		query.Set("sslcert", certificate)
		query.Set("sslkey", key)
		with.RawQuery = query.Encode()
		return open(t, with.String()).Ping(t.Context())
	}
	certificate, key := authority.issue(t, "app", readable)
	waittest.Eventually(t, "the server has read its settings", func() bool { return connect(certificate, key) == nil })
	if err := open(t, u.String()).Ping(t.Context()); !sqldb.Misconfigured(err) {
		t.Errorf("without a certificate: %v", err)
	}
	for name, files := range map[string]func() (certificate, key string){
		"another name":     func() (string, string) { return authority.issue(t, "other", readable) },
		"another CA":       func() (string, string) { return newAuthority(t).issue(t, "app", readable) },
		"a key for all":    func() (string, string) { return authority.issue(t, "app", 0o444) },
		"a key of nowhere": func() (string, string) { return certificate, key + ".none" },
	} {
		certificate, key := files()
		// A connection that the server resets before its alert was read is tried again, as at a start.
		waittest.Eventually(t, name+" is refused with a sentence about the settings", func() bool {
			err := connect(certificate, key)
			if err == nil {
				t.Fatalf("%s: it has connected", name)
			}
			return sqldb.Misconfigured(err)
		})
	}
}

func unprivileged(t *testing.T) *guard.User {
	t.Helper()
	user, err := guard.Unprivileged()
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// authority signs certificates of clients.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	der         []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "clients"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.key, a.der = a.sign(t, a.certificate)
	return a
}

// sign returns a new key and its certificate, signed by the authority, or by itself when that has no key yet.
func (a *authority) sign(t *testing.T, template *x509.Certificate) (key *ecdsa.PrivateKey, der []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := key
	if a.key != nil {
		signer = a.key
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), signer); err != nil {
		t.Fatal(err)
	}
	return key, der
}

// issue returns the files of a certificate for a client of this name, and of its key with this mode.
func (a *authority) issue(t *testing.T, name string, mode os.FileMode) (certificate, keyFile string) {
	t.Helper()
	key, der := a.sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificate, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	err = errors.Join(
		os.WriteFile(certificate, []byte(encode("CERTIFICATE", der)), 0o600),
		os.WriteFile(keyFile, []byte(encode("PRIVATE KEY", encoded)), mode),
		os.Chmod(keyFile, mode), // whatever the umask is
	)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, keyFile
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
