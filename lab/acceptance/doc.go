// Package acceptance holds the tests of what the services promise that need
// real replicas: several processes on one PostgreSQL, spoken to over HTTP as
// anybody would, with faults in between. It has no code of its own; what it
// stands on is in lab/internal and platform/dbtest.
//
// Each answer to a change falls into one of three classes, and all tests judge
// by them:
//
//	acknowledged   200: the change is in the database, and stays there
//	not applied    503, or nobody could be dialled: the change is surely not in the database
//	unknown        500 OUTCOME_UNKNOWN, or the connection was lost: it may be there, once
//
// So a counter ends between the sum of what was acknowledged and that sum plus
// what is unknown, whatever happened in between.
package acceptance
