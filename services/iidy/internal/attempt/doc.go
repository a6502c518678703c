// Package attempt is the domain of the iidy service: lists of items that are to be
// worked on until they are done, each with the number of attempts that have
// failed so far. It imports only the standard library.
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
//   - An item is in a list once. Adding what is there changes nothing and is not
//     counted; changing what is not there is not an error and not counted either.
//   - A batch is applied whole or not at all, however many items it has, and an
//     item that is in it twice counts once.
//   - Each item is linearizable. A batch commits as a whole, but it comes to its
//     items one after the other: of what others commit meanwhile it may see one
//     item's change and miss another's (READ COMMITTED).
//   - Of any number of claimers each free item goes to one. A claim is held until
//     its lease is over by the database's clock: a change that comes later with it
//     touches nothing. One that came in time and had to wait for a row that was
//     locked, but not changed, is applied; nobody else can have had the item.
//   - A change that names no claim is applied whoever holds the item.
//   - Items are ordered by their bytes, whatever the database's locale.
//
// # On failure
//
// An acknowledged change is committed. Adding and deleting may be repeated as
// often as one likes (only the counts differ); an increment whose outcome is
// unknown may count twice. A worker that dies loses its claim when the lease is
// over, and its items are handed out again.
package attempt
