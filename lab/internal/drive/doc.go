// Package drive keeps a running service under steady load until it is told to
// stop, and then holds what the service has stored against what it answered.
// The tests in a cluster run it in a pod while they upgrade, kill and scale.
//
// Each answer falls into one of four classes:
//
//	acknowledged   the change is in the database, and stays there
//	not applied    503: the change is surely not there
//	unknown        500 OUTCOME_UNKNOWN, or the connection was lost: it may be there, once
//	wrong          anything else: a bug
//
// A connection that was refused carried nothing: it is tried again, and counted
// as a redial. Whatever happened, what is stored lies between what was
// acknowledged and that plus what is unknown.
package drive
