// Package chassis is what every replica of every service has before it does
// anything of its own: telemetry, a database pool, migrations, an admin listener,
// API listeners, and the order in which they start and stop (the "microservice
// chassis" of microservices.io/patterns/microservice-chassis.html). A service's
// internal/app adds its adapters and routes.
//
// # Start
//
//	admin listener (/livez true, /readyz false) → database reached, migrated or
//	verified, the service's own check → the service's parts → API listeners → ready
//
// A database that is away is waited for; anything else that is wrong ends the
// start with one sentence. Whatever had been opened by then is closed.
//
// # Stop
//
//	not ready → API listeners drain (after ShutdownDelay) → the service's parts,
//	last first → admin listener → pool → spans
package chassis
