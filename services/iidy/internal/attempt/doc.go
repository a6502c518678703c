// Package attempt is the domain of the iidy service: lists of items to be done,
// each with the number of its failed attempts. It imports only the standard library.
//
// # States of an item
//
//	            Add                    Claim                 Delete
//	(absent) ────────► free, n attempts ────► claimed until t ────► (absent)
//	                     ▲    │ Increment: n+1     │ Increment: n+1, same lease
//	                     │    └──┐                 │
//	                     └───────┴── Release ──────┘ or t has passed
//
// # Invariants
//
//   - An item is in a list once. Adding an item that is already there changes
//     nothing and counts 0; so does changing an absent item.
//   - A batch is applied all or nothing, however many items it has, and an item
//     that it repeats counts once.
//   - Each item is linearizable. A batch commits as a whole but locks its items
//     one after the other: of another transaction that commits meanwhile, it may
//     see the change of one item and not of another (READ COMMITTED).
//   - Of any number of concurrent claimers, one gets a free item. A claim holds
//     until its lease ends by the database's clock; a later change with that claim
//     does nothing. A change that came in time and waited for a row that was
//     locked but not changed is applied: no other claim can have held the item.
//   - A change without a claim is applied regardless of claims.
//   - Items are ordered by their bytes, whatever the database's locale.
//
// # On failure
//
// An acknowledged change is committed. Adds and deletes may be repeated at any time
// (only the counts differ); an increment whose outcome is unknown may count twice.
// The items of a worker that dies are free again when its lease ends.
package attempt
