// Package mysqlerr reads errors of github.com/go-sql-driver/mysql, for MySQL and
// MariaDB. It is the sibling of package pqerr, and the only place that knows the
// driver's error type.
package mysqlerr

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Facts is the part of a server's answer that may be logged. It never holds the
// server's own message where that quotes values.
type Facts struct {
	// Number is the server's error number, such as 1213.
	Number uint16
	// SQLState is the server's five characters; many numbers share HY000.
	SQLState string
	// Constraint is the key that a duplicate violates, "" for other errors.
	Constraint string
	// Fatal tells that the session ended with this answer, so that what it said
	// about a COMMIT is no proof.
	Fatal bool
}

// Error numbers that the package and its callers act on, by the server's names
// without ER_. Those from 1900 on, but for 3024, 3572 and 4031, are MariaDB's.
const (
	ConCount             = 1040 // no free connection
	DBAccessDenied       = 1044
	AccessDenied         = 1045
	BadDB                = 1049
	TableExists          = 1050
	ServerShutdown       = 1053
	DupEntry             = 1062
	DiskFull             = 1021
	OutOfResources       = 1041
	RecordFileFull       = 1114
	HostNotPrivileged    = 1130
	ErrorDuringCommit    = 1180
	TooManyUserConns     = 1203
	LockWaitTimeout      = 1205
	LockDeadlock         = 1213
	UserLimitReached     = 1226
	OptionPrevents       = 1290
	QueryInterrupted     = 1317
	AccessDeniedNoPass   = 1698
	ReadOnlyTransaction  = 1792
	ReadOnlyMode         = 1836
	ConnectionKilled     = 1927
	StatementTimeout     = 1969
	RecordChanged        = 1020 // innodb_snapshot_isolation of MariaDB
	QueryTimeout         = 3024 // MySQL's max_execution_time
	SecureTransportNeeds = 3159
	LockNowait           = 3572
	IdleDisconnected     = 4031
)

// Inspect returns the facts of the server's answer in err's chain; false when
// the error is not an answer of the server.
func Inspect(err error) (Facts, bool) {
	answer, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return Facts{}, false
	}
	f := Facts{Number: answer.Number}
	if answer.SQLState != ([5]byte{}) {
		f.SQLState = string(answer.SQLState[:])
	}
	switch answer.Number {
	case DupEntry:
		f.Constraint = duplicateKey(answer.Message)
	case ServerShutdown, ErrorDuringCommit, ConnectionKilled, IdleDisconnected:
		f.Fatal = true
	}
	return f, true
}

// duplicateKey is the name at the end of "Duplicate entry '...' for key 'name'";
// MySQL 8 puts the table before it.
func duplicateKey(message string) string {
	const before = " for key '"
	at := strings.LastIndex(message, before)
	if at < 0 {
		return ""
	}
	name := strings.TrimSuffix(message[at+len(before):], "'")
	return name[strings.LastIndex(name, ".")+1:]
}

// Text is err.Error() with the server's own message replaced by its number and
// SQLSTATE, so that what a caller wrapped around it is kept. The message is left
// out where it may quote a value, which is everywhere but in what is listed here.
func Text(err error) string {
	text := err.Error()
	answer, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return text
	}
	return strings.ReplaceAll(text, answer.Error(), message(answer))
}

func message(answer *mysql.MySQLError) string {
	code := "error " + strconv.Itoa(int(answer.Number))
	switch answer.Number {
	case LockDeadlock, LockWaitTimeout, ConCount, TooManyUserConns, ServerShutdown, ConnectionKilled, QueryInterrupted, StatementTimeout,
		QueryTimeout, RecordChanged, LockNowait, IdleDisconnected, OptionPrevents, ReadOnlyMode, ReadOnlyTransaction, TableExists,
		// A login's names are the operator's own, and he needs them.
		AccessDenied, DBAccessDenied, BadDB, HostNotPrivileged, AccessDeniedNoPass, SecureTransportNeeds,
		// What is missing or wrong in a statement: names, and the statement's own text, which has placeholders only before the driver fills
		// them in. So the syntax error (1064) is not among them.
		noSuchTable, badField, tableAccessDenied, unknownVariable, requiresPrimaryKey, mariaRequiresPrimaryKey:
		return answer.Message + " (" + code + ")"
	}
	if answer.SQLState != ([5]byte{}) {
		return code + " (" + string(answer.SQLState[:]) + ")"
	}
	return code
}

const (
	badField                = 1054
	tableAccessDenied       = 1142
	noSuchTable             = 1146
	mariaRequiresPrimaryKey = 1173
	unknownVariable         = 1193
	requiresPrimaryKey      = 3750
)

// Misconfigured tells an error of a connect that waiting does not mend: a refused
// login, or TLS that one side insists on and the other has not.
func Misconfigured(err error) bool {
	if f, ok := Inspect(err); ok {
		switch f.Number {
		case AccessDenied, DBAccessDenied, BadDB, HostNotPrivileged, AccessDeniedNoPass, SecureTransportNeeds:
			return true
		}
		return false
	}
	for _, refusal := range []error{
		mysql.ErrNoTLS, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrOldProtocol, mysql.ErrUnknownPlugin,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// Broken tells the driver's own errors of a connection that ended or lost its place.
func Broken(err error) bool {
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, mysql.ErrMalformPkt) ||
		errors.Is(err, mysql.ErrPktSync) || errors.Is(err, mysql.ErrPktSyncMul) || errors.Is(err, mysql.ErrBusyBuffer)
}
