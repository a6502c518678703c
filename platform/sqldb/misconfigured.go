package sqldb

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"

	"github.com/go-sql-driver/mysql"
	"github.com/lib/pq"
)

// Misconfigured reports whether err is a failure to connect that waiting does not
// repair: a server without TLS where sslmode requires it, a certificate that does not
// verify, on either side, a file named by the URL that cannot be read, or a login that the server
// refuses (a wrong password, an unknown role or database, a missing right to connect).
// To a request each of them is a database that is unavailable; a program that starts
// should report it and exit.
func Misconfigured(err error) bool {
	failed, ok := errors.AsType[*connectError](err)
	if !ok {
		return false
	}
	err = failed.cause
	if r, ok := answered(err); ok {
		return r.refused
	}
	return isAny(err, pq.ErrSSLNotSupported, pq.ErrSSLKeyHasWorldPermissions, pq.ErrSSLKeyUnknownOwnership,
		mysql.ErrNoTLS, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrOldProtocol,
		mysql.ErrUnknownPlugin) ||
		isType[*fs.PathError](err) || // a missing Unix socket is a *net.OpError instead
		untrusted(err)
}

// untrusted reports an error of the TLS handshake that is no error of the network.
// crypto/tls wraps what it finds; with sslmode=verify-ca the driver verifies, and
// returns the errors of x509 as they are. A remote error is the server's alert, about
// the client's certificate for example.
func untrusted(err error) bool {
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "remote error" {
		return true
	}
	return isType[*tls.CertificateVerificationError](err) || isType[x509.UnknownAuthorityError](err) ||
		isType[x509.CertificateInvalidError](err) || isType[x509.HostnameError](err) ||
		isType[x509.SystemRootsError](err)
}
