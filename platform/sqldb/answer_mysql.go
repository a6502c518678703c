package sqldb

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

const (
	stateGeneralError = "HY000" // of what has no SQLSTATE of its own
	duplicateEntry    = 1062
)

// mysqlMeaning returns the meaning of an error number of MySQL or MariaDB, with the reason Other where the class of its
// SQLSTATE tells, and inDoubt where the session ended with it or COMMIT itself failed. The syntax error (1064) is not
// shown: it quotes the statement, into which the driver has put the values.
func mysqlMeaning(number uint16) reply {
	switch number {
	case 1213, 1020: // deadlock; changed since last read (MariaDB's innodb_snapshot_isolation)
		return reply{reason: Serialization, shown: true}
	case 1205, 3572: // lock wait timeout; NOWAIT
		return reply{reason: LockTimeout, shown: true}
	case 1969, 3024, 1317: // max_statement_time of MariaDB, max_execution_time of MySQL; interrupted
		return reply{reason: Timeout, shown: true}
	case 1040, 1203: // too many connections, of the server and of a user
		return reply{reason: Overloaded, shown: true}
	case 1226: // a user's limit is reached
		return reply{reason: Overloaded}

	case 1053, 1927, 4031: // shutdown; killed; disconnected because it was idle
		return reply{reason: Connection, inDoubt: true, shown: true}
	case 3, 1026, 1180: // error writing a file, such as the binary log (2), or during COMMIT
		return reply{reason: Connection, inDoubt: true}
	case 1290, 1836, 1792: // read only: by an option, the server, the transaction
		return reply{reason: Connection, readOnly: true, shown: true}
	case 5, 1037, 1038, 1041, 1021, 1114, 1206: // out of memory (4); disk full; table full; too many locks
		return reply{reason: Connection}
	case 1044, 1045, 1698, 1049, 1130, 3159: // access denied (3); unknown database; host refused; TLS required
		return reply{refused: true, shown: true}

	case 3819: // a check of MySQL fails; MariaDB's has the class 23
		return reply{reason: Constraint, shown: true}
	case 1142, 1143: // a right on a table or on a column
		return reply{reason: Denied, shown: true}
	case 1050, 1054, 1146, 1173, 1193, 1235, 3750: // what exists, is missing or not allowed in a statement
		return reply{shown: true}
	}
	return reply{}
}

// mysqlReply classifies an answer of MySQL or MariaDB.
func mysqlReply(answer *mysql.MySQLError) reply {
	r := mysqlMeaning(answer.Number)
	r.sqlState = mysqlState(answer)
	if answer.Number == duplicateEntry {
		r.constraint = duplicateKey(answer.Message)
	}
	switch class(r.sqlState) {
	case "08":
		r.reason = cmp.Or(r.reason, Connection)
	case "23":
		r.reason = cmp.Or(r.reason, Constraint)
	case "22":
		r.reason = cmp.Or(r.reason, Data)
	}
	return r
}

// mysqlState returns the SQLSTATE of an answer, "" when it has none. Many error numbers
// share HY000.
func mysqlState(answer *mysql.MySQLError) string {
	if answer.SQLState == ([5]byte{}) {
		return ""
	}
	return string(answer.SQLState[:])
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

// mysqlMessage returns the message of an answer where it may be shown, else its SQLSTATE,
// with the number.
func mysqlMessage(answer *mysql.MySQLError) string {
	code := "error " + strconv.Itoa(int(answer.Number))
	if mysqlMeaning(answer.Number).shown {
		return answer.Message + " (" + code + ")"
	}
	if state := mysqlState(answer); state != "" {
		return code + " (" + state + ")"
	}
	return code
}
