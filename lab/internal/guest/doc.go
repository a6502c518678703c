// Package guest makes a run a guest on a PostgreSQL server that belongs to
// somebody else, and that goes on serving others meanwhile.
//
// [Parse] reads the URL, [Server.Look] finds out whether the server can take the
// run, and refuses in one sentence where it cannot. [Server.Enter] makes a database
// and hands out names of roles, all of which begin with a prefix that only this run
// has. Nothing else on the server is changed: no setting, no role and no database of
// others. [Stay.Leave] drops what was made, and names what it could not.
//
// Passwords stand in URLs and nowhere else: no error of this package holds one.
package guest
