// Package mysqlerr reads errors of github.com/go-sql-driver/mysql, for MySQL and
// MariaDB, as package pqerr does for PostgreSQL. Only this package uses the driver's
// error type.
package mysqlerr

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Facts holds the part of a server's answer that contains no values.
type Facts struct {
	// Number is the server's error number, such as 1213.
	Number uint16
	// SQLState is the server's five characters; many numbers share HY000.
	SQLState string
	// Constraint is the key that a duplicate violates, "" for other errors.
	Constraint string
	// Fatal says that the session ended with this answer, which then proves nothing
	// about a COMMIT.
	Fatal bool
}

// Error numbers that callers handle, by the server's names without ER_. Those from
// 1900 on, except 3024, 3572 and 4031, are MariaDB's.
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

// duplicateKey returns the name at the end of "Duplicate entry '...' for key 'name'";
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

// Text returns err.Error() with the server's own message replaced by its number and
// SQLSTATE, keeping what callers wrapped around it. The message stays only for the
// numbers listed in message, because any other may quote a value.
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
	case LockDeadlock, LockWaitTimeout, ConCount, TooManyUserConns, ServerShutdown, ConnectionKilled,
		QueryInterrupted, StatementTimeout, QueryTimeout, RecordChanged, LockNowait, IdleDisconnected,
		OptionPrevents, ReadOnlyMode, ReadOnlyTransaction, TableExists,
		// The names in a refused login are the operator's own.
		AccessDenied, DBAccessDenied, BadDB, HostNotPrivileged, AccessDeniedNoPass, SecureTransportNeeds,
		// Names that are missing or wrong in a statement. The syntax error (1064) is not
		// listed: it quotes the statement, into which the driver has put the values.
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

// Misconfigured reports whether err is a failure to connect that waiting does not
// repair: a refused login, or TLS that one side requires and the other lacks.
func Misconfigured(err error) bool {
	if f, ok := Inspect(err); ok {
		return slices.Contains([]uint16{
			AccessDenied, DBAccessDenied, BadDB, HostNotPrivileged, AccessDeniedNoPass, SecureTransportNeeds,
		}, f.Number)
	}
	return isAny(err, mysql.ErrNoTLS, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword,
		mysql.ErrOldProtocol, mysql.ErrUnknownPlugin)
}

// Broken reports whether err is the driver's error of a connection that ended or is out
// of step.
func Broken(err error) bool {
	return isAny(err, mysql.ErrInvalidConn, mysql.ErrMalformPkt, mysql.ErrPktSync, mysql.ErrPktSyncMul,
		mysql.ErrBusyBuffer)
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
