// Package attempt is the domain of the iidy service: lists of items that are
// worked on until they are done, each with the number of its failed attempts. It
// imports only the standard library.
//
// # States of an item
//
//	            Add                    Claim                 Delete
//	(absent) ────────► free, n attempts ────► claimed until t ────► (absent)
//	                     ▲    │ Increment: n+1     │ Increment: n+1, the lease runs on
//	                     │    └──┐                 │
//	                     └───────┴── Release ──────┘ or t has passed
//
// # Invariants
//
//   - An item is in a list once. Adding an item that is there changes nothing and
//     counts 0; so does changing an item that is not there.
//   - A batch is applied whole or not at all, however many items it has, and an
//     item that it repeats counts once.
//   - Each item is linearizable. A batch commits as a whole but reaches its items
//     one after the other: of what other transactions commit meanwhile it may see
//     the change of one item and miss that of another (READ COMMITTED).
//   - A free item goes to one of any number of concurrent claimers. A claim holds
//     until its lease ends by the database's clock; a later change with that claim
//     touches nothing. A change that came in time and waited for a row that was
//     locked but not changed is applied: no other claim can have had the item.
//   - A change without a claim is applied regardless of claims.
//   - Items are ordered by their bytes, whatever the database's locale.
//
// # On failure
//
// An acknowledged change is committed. Adds and deletes may be repeated at any time
// (only the counts differ); an increment whose outcome is unknown may count twice.
// The items of a worker that dies are free again when its lease ends.
package attempt
