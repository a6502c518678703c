// Package chassis builds what all services have in common: telemetry, a database pool, migrations, an admin listener
// and API listeners. It starts and stops them in order. A service's internal/app describes the service with a [Service]
// and adds its adapters, routes and parts in Build.
//
// # Start
//
//	admin listener (/livez true, /readyz false) → database reached, migrated or
//	verified, the service's own check → the service's parts → API listeners → ready
//
// The start waits for a database that is unavailable. Any other fault ends it with one sentence, after closing what
// was already open.
//
// # Stop
//
//	not ready → API listeners drain (after ShutdownDelay) → the service's parts,
//	last first → admin listener → pool → spans
package chassis
