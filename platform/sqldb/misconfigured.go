package sqldb

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"

	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/sqldb/mysqlerr"
)

// Misconfigured tells whether err is a connection that failed for a reason that
// waiting does not mend: a server without TLS where sslmode asks for it, a
// certificate that does not verify, a file named by the URL that cannot be
// read, and a login that the server refuses (classes 28 and 3D: a wrong
// password, an unknown role or database). To a request each of them is still a
// database that is away; a program that starts should say it and end.
func Misconfigured(err error) bool {
	failed, ok := errors.AsType[*connectError](err)
	if !ok {
		return false
	}
	if mysqlerr.Misconfigured(failed.cause) {
		return true
	}
	switch state := SQLState(failed.cause); {
	case len(state) == len("28000"):
		return state[:2] == "28" || state[:2] == "3D"
	case errors.Is(failed.cause, pq.ErrSSLNotSupported), errors.Is(failed.cause, pq.ErrSSLKeyHasWorldPermissions),
		errors.Is(failed.cause, pq.ErrSSLKeyUnknownOwnership):
		return true
	}
	// A socket that is not there yet is a *net.OpError instead.
	_, file := errors.AsType[*fs.PathError](failed.cause)
	return file || untrusted(failed.cause)
}

// untrusted tells an error of the TLS handshake that is no error of the network.
func untrusted(err error) bool {
	// crypto/tls wraps what it finds itself; sslmode=verify-ca makes the driver
	// look, which does not.
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.SystemRootsError](err)
	return ok
}
