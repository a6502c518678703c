package sqldb

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/sqldb/mysqlerr"
)

// Misconfigured reports whether err is a failure to connect that waiting does not
// repair: a server without TLS where sslmode requires it, a certificate that does not
// verify, a file named by the URL that cannot be read, or a login that the server
// refuses (classes 28 and 3D: a wrong password, an unknown role or database). To a
// request each of them is a database that is unavailable; a program that starts
// should report it and exit.
func Misconfigured(err error) bool {
	failed, ok := errors.AsType[*connectError](err)
	if !ok {
		return false
	}
	err = failed.cause
	if mysqlerr.Misconfigured(err) {
		return true
	}
	if state := SQLState(err); len(state) == len("28000") {
		return state[:2] == "28" || state[:2] == "3D"
	}
	return errors.Is(err, pq.ErrSSLNotSupported) || errors.Is(err, pq.ErrSSLKeyHasWorldPermissions) ||
		errors.Is(err, pq.ErrSSLKeyUnknownOwnership) ||
		isType[*fs.PathError](err) || // a missing Unix socket is a *net.OpError instead
		untrusted(err)
}

// untrusted reports an error of the TLS handshake that is no error of the network.
// crypto/tls wraps what it finds; with sslmode=verify-ca the driver verifies, and
// returns the errors of x509 as they are.
func untrusted(err error) bool {
	return isType[*tls.CertificateVerificationError](err) || isType[x509.UnknownAuthorityError](err) ||
		isType[x509.CertificateInvalidError](err) || isType[x509.HostnameError](err) ||
		isType[x509.SystemRootsError](err)
}
