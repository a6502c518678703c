package sqldb

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/rowlock/rowlock/platform/problem"
)

// answer is an error as the driver makes it, with a value in DETAIL.
func answer(state, severity string) error {
	return &pq.Error{
		Code: pqerror.Code(state), Severity: severity, Message: "the message", Constraint: "the_constraint",
		Detail: "Key (id)=(s3cret) already exists.", Hint: "s3cret", Where: "s3cret",
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	refused := &connectError{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	login := func(state string) error { return &connectError{answer(state, "FATAL")} }
	for name, c := range map[string]struct {
		err     error
		sent    bool
		outcome Outcome
		reason  Reason
		code    string // of the problem; "" for none
	}{
		"lock timeout":              {answer("55P03", "ERROR"), true, NotApplied, LockTimeout, "NOT_APPLIED"},
		"deadlock":                  {answer("40P01", "ERROR"), true, NotApplied, Serialization, "NOT_APPLIED"},
		"serialization at COMMIT":   {answer("40001", "ERROR"), true, NotApplied, Serialization, "NOT_APPLIED"},
		"statement timeout":         {answer("57014", "ERROR"), true, NotApplied, Timeout, "NOT_APPLIED"},
		"too many connections":      {answer("53300", "FATAL"), false, NotApplied, Overloaded, "OVERLOADED"},
		"starting up":               {answer("57P03", "FATAL"), false, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"terminated while it ran":   {answer("57P01", "FATAL"), true, Unknown, Connection, "OUTCOME_UNKNOWN"},
		"terminated, in Russian":    {answer("57P01", "ВАЖНО"), true, Unknown, Connection, "OUTCOME_UNKNOWN"},
		"no disk, in Russian":       {answer("58030", "ПАНИКА"), true, Unknown, Connection, "OUTCOME_UNKNOWN"},
		"internal, in Russian":      {answer("XX000", "ОШИБКА"), true, Unknown, Other, "OUTCOME_UNKNOWN"},
		"internal error":            {answer("XX000", "ERROR"), true, NotApplied, Other, ""},
		"disk full":                 {answer("53100", "ERROR"), true, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"temp_file_limit":           {answer("53400", "ERROR"), true, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"a file that fails":         {answer("58030", "ERROR"), true, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"no transaction ids left":   {answer("54000", "ERROR"), true, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"a standby":                 {answer("25006", "ERROR"), true, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"completion unknown":        {answer("40003", "ERROR"), true, Unknown, Other, "OUTCOME_UNKNOWN"},
		"resolution unknown":        {answer("08007", "ERROR"), true, Unknown, Connection, "OUTCOME_UNKNOWN"},
		"unique":                    {answer("23505", "ERROR"), true, NotApplied, Constraint, ""},
		"overflow":                  {answer("22003", "ERROR"), true, NotApplied, Data, ""},
		"right revoked":             {answer("42501", "ERROR"), true, NotApplied, Denied, "DATABASE_UNAVAILABLE"},
		"no such table":             {answer("42P01", "ERROR"), true, NotApplied, Other, ""},
		"a state of one character":  {answer("5", "ERROR"), true, NotApplied, Other, ""},
		"refused dial":              {refused, false, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"login refused":             {login("28000"), false, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"CONNECT revoked":           {login("42501"), false, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"a setting refused":         {login("22023"), false, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"login timed out":           {login("57014"), false, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"connections used up":       {login("53300"), false, NotApplied, Overloaded, "OVERLOADED"},
		"reset before":              {reset, false, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"reset after":               {reset, true, Unknown, Connection, "OUTCOME_UNKNOWN"},
		"lost":                      {&lostError{driver.ErrBadConn}, true, Unknown, Connection, "OUTCOME_UNKNOWN"},
		"bad connection after":      {driver.ErrBadConn, true, Unknown, Connection, "OUTCOME_UNKNOWN"},
		"connection already closed": {sql.ErrConnDone, true, Unknown, Connection, "OUTCOME_UNKNOWN"},
		"EOF":                       {io.EOF, true, Unknown, Connection, "OUTCOME_UNKNOWN"},
		"deadline before":           {context.DeadlineExceeded, false, NotApplied, Timeout, "NOT_APPLIED"},
		"deadline after":            {context.DeadlineExceeded, true, Unknown, Timeout, "OUTCOME_UNKNOWN"},
		"cancelled before":          {context.Canceled, false, NotApplied, Canceled, "NOT_APPLIED"},
		"finished by fn itself":     {sql.ErrTxDone, true, Unknown, Other, "OUTCOME_UNKNOWN"},
		"aborted, then COMMIT":      {pq.ErrInFailedTransaction, true, NotApplied, Other, ""},
		"MySQL, deadlock":           {&mysql.MySQLError{Number: 1213}, true, NotApplied, Serialization, "NOT_APPLIED"},
		"MySQL, NOWAIT":             {&mysql.MySQLError{Number: 3572}, true, NotApplied, LockTimeout, "NOT_APPLIED"},
		"MySQL, too many":           {&mysql.MySQLError{Number: 1040}, false, NotApplied, Overloaded, "OVERLOADED"},
		"MySQL, shutdown before":    {&mysql.MySQLError{Number: 1053}, false, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"MySQL, shutdown after":     {&mysql.MySQLError{Number: 1053}, true, Unknown, Connection, "OUTCOME_UNKNOWN"},
		"MySQL, error in COMMIT":    {&mysql.MySQLError{Number: 1180}, true, Unknown, Connection, "OUTCOME_UNKNOWN"},
		"MySQL, right revoked":      {&mysql.MySQLError{Number: 1142}, true, NotApplied, Denied, "DATABASE_UNAVAILABLE"},
		"MySQL, disk full":          {&mysql.MySQLError{Number: 1114}, true, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"MySQL, too many locks":     {&mysql.MySQLError{Number: 1206}, true, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"MySQL, disk full before":   {&mysql.MySQLError{Number: 1026}, false, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
		"MySQL, disk full after":    {&mysql.MySQLError{Number: 1026}, true, Unknown, Connection, "OUTCOME_UNKNOWN"},
		"MySQL, read only":          {&mysql.MySQLError{Number: 1290}, true, NotApplied, Connection, "DATABASE_UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := Classify(fmt.Errorf("claim the key: %w", c.err), c.sent)
			if e == nil {
				t.Fatal("not recognised")
			}
			if e.Outcome != c.outcome || e.Reason != c.reason {
				t.Errorf("got %s, %s; want %s, %s", e.Outcome, e.Reason, c.outcome, c.reason)
			}
			if !errors.Is(e, c.err) {
				t.Error("the cause is lost")
			}
			if text := e.Error(); strings.Contains(text, "s3cret") || !strings.Contains(text, "claim the key") {
				t.Errorf("the text is %q", text)
			}
			if again := Classify(fmt.Errorf("again: %w", e), !c.sent); again != e {
				t.Error("a classified error was classified again")
			}
			p := Problem(fmt.Errorf("again: %w", e))
			switch {
			case c.code == "" && p != nil:
				t.Errorf("got the problem %v, want none", p)
			case c.code != "" && (p == nil || p.Kind().Code() != c.code):
				t.Errorf("got the problem %v, want %s", p, c.code)
			case p != nil && (!errors.Is(p, c.err) || strings.Contains(p.Detail(), "message")):
				t.Errorf("the problem loses its cause or shows it: %v", p)
			}
		})
	}
}

func TestClassifyLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errors.New("no such count"), sql.ErrNoRows, problem.NotFound.New("gone")} {
		if e := Classify(err, true); e != nil {
			t.Errorf("%v became %v", err, e)
		}
		if Problem(err) != nil {
			t.Errorf("%v became a problem", err)
		}
		if _, ok := OutcomeOf(err); ok {
			t.Errorf("%v has an outcome", err)
		}
	}
}

func TestErrorTextHoldsNoValues(t *testing.T) {
	t.Parallel()
	for _, state := range []pqerror.Code{"22P02", "22003", "P0001"} {
		e := Classify(&pq.Error{Code: state, Severity: "ERROR", Message: `invalid input: "s3cret"`}, true)
		if strings.Contains(e.Error(), "s3cret") || !strings.Contains(e.Error(), string(state)) {
			t.Errorf("%s: %s", state, e)
		}
	}
	e := Classify(&pq.Error{Code: "42P01", Severity: "ERROR", Message: `relation "counts.x" does not exist`}, true)
	if !strings.Contains(e.Error(), `relation "counts.x" does not exist`) {
		t.Errorf("the message that names the mistake is lost: %s", e)
	}
}
