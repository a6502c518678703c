// Package chassis builds what every replica of every service has: telemetry, a database pool, migrations, an admin
// listener and API listeners, with the order in which they start and stop. A service's internal/app describes the
// service by a [Service] and adds its adapters, routes and parts in Build.
//
// # Start
//
//	admin listener (/livez true, /readyz false) → database reached, migrated or
//	verified, the service's own check → the service's parts → API listeners → ready
//
// A database that is away is waited for; anything else that is wrong ends the start with one sentence. What had been
// opened by then is closed.
//
// # Stop
//
//	not ready → API listeners drain (after ShutdownDelay) → the service's parts,
//	last first → admin listener → pool → spans
package chassis
