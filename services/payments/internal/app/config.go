package app

import (
	"errors"
	"time"

	"github.com/rowlock/rowlock/platform/config"
	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// Config is the configuration of a replica.
type Config struct {
	config.Common

	// LockWait limits the time that a request waits for its key, in the process and in the database together.
	LockWait time.Duration `env:"LOCK_WAIT" envDefault:"3s" min:"1ms"`
	// IdempotencyTTL is the time to live of a key.
	IdempotencyTTL time.Duration `env:"IDEMPOTENCY_TTL" envDefault:"24h" min:"1ms"`
	// CleanupInterval is the time between two deletions of expired records.
	CleanupInterval time.Duration `env:"CLEANUP_INTERVAL" envDefault:"1h" min:"1ms"`
	// ProcessorTimeout limits the time of a call to the processor.
	ProcessorTimeout time.Duration `env:"PROCESSOR_TIMEOUT" envDefault:"3s" min:"1ms"`
	// ReconcileAfter is the time from the end of a claim until the processor is asked about it.
	ReconcileAfter time.Duration `env:"RECONCILE_AFTER" envDefault:"1m" min:"1ms"`
	// ProcessorLatency is the time that the simulator waits before it charges.
	ProcessorLatency time.Duration `env:"PROCESSOR_LATENCY" envDefault:"0s" min:"0s"`
	// ProcessorLatencyMax, when longer, makes that time random between the two.
	ProcessorLatencyMax time.Duration `env:"PROCESSOR_LATENCY_MAX" envDefault:"0s" min:"0s"`
	// ProcessorDatabaseURL is the database of the simulated processor's ledger.
	ProcessorDatabaseURL string `env:"PROCESSOR_DATABASE_URL" secret:"url"`
	// LedgerRetention is the time that the ledger keeps an entry whose payment is stored.
	LedgerRetention time.Duration `env:"LEDGER_RETENTION" envDefault:"720h"`
	// FingerprintSecret is the key of the fingerprints.
	FingerprintSecret string `env:"FINGERPRINT_SECRET" secret:"true"`
	// FingerprintSecretPrevious is a second key for comparing stored fingerprints.
	FingerprintSecretPrevious string `env:"FINGERPRINT_SECRET_PREVIOUS" secret:"true"`
	// AllowBareFingerprints lets the service start without a secret.
	AllowBareFingerprints bool `env:"ALLOW_BARE_FINGERPRINTS" envDefault:"false"`
}

// Help describes the variables.
func (Config) Help() map[string]string {
	return map[string]string{
		"LOCK_WAIT": "how long a request waits for another one with its key; then it gets 409 PAYMENT_PROCESSING",
		"IDEMPOTENCY_TTL": "how long the answer to a key is kept; afterwards the key counts as new; more than " +
			"REQUEST_TIMEOUT and twice DB_STATEMENT_TIMEOUT",
		"CLEANUP_INTERVAL":       "how often old keys and ledger entries are deleted",
		"PROCESSOR_TIMEOUT":      "how long the processor may take; with LOCK_WAIT less than REQUEST_TIMEOUT",
		"RECONCILE_AFTER":        "how long after a request gave up its payment the processor is asked for the outcome",
		"PROCESSOR_LATENCY":      "how long the simulated processor waits before it charges",
		"PROCESSOR_LATENCY_MAX":  "if longer, the simulated processor waits for a random time between the two",
		"PROCESSOR_DATABASE_URL": "the same database, for the simulated processor's ledger; empty means DATABASE_URL",
		"LEDGER_RETENTION":       "how long the ledger keeps an entry whose payment is stored; more than IDEMPOTENCY_TTL",

		"FINGERPRINT_SECRET":          "key of the fingerprints, 32 bytes or more; the same on all replicas",
		"FINGERPRINT_SECRET_PREVIOUS": "the previous key, while rotating: stored fingerprints may have been made with it",
		"ALLOW_BARE_FINGERPRINTS":     "start without FINGERPRINT_SECRET, for tests: bare hashes protect no card",
	}
}

// Validate checks what no tag can express. Load calls it after Common.Validate.
func (c Config) Validate(f *config.Faults) {
	if c.ProcessorDatabaseURL != "" {
		f.URL("PROCESSOR_DATABASE_URL", c.ProcessorDatabaseURL)
	}
	f.Less("LOCK_WAIT", c.LockWait, "DB_STATEMENT_TIMEOUT", c.DBStatementTimeout)
	if c.LockWait+c.ProcessorTimeout >= c.RequestTimeout {
		f.Add("LOCK_WAIT and PROCESSOR_TIMEOUT together must be less than REQUEST_TIMEOUT, "+
			"or a request is given up while its card is charged", "LOCK_WAIT", "PROCESSOR_TIMEOUT", "REQUEST_TIMEOUT")
	}

	f.Less("IDEMPOTENCY_TTL", c.IdempotencyTTL, "LEDGER_RETENTION", c.LedgerRetention)
	f.Less("REQUEST_TIMEOUT", c.RequestTimeout, "IDEMPOTENCY_TTL", c.IdempotencyTTL)
	if c.IdempotencyTTL <= 2*c.DBStatementTimeout {
		f.Add("IDEMPOTENCY_TTL must be more than twice DB_STATEMENT_TIMEOUT, or a key could be claimed, settled and expire "+
			"while another claim of it runs", "IDEMPOTENCY_TTL", "DB_STATEMENT_TIMEOUT")
	}

	if c.FingerprintSecretPrevious != "" && c.FingerprintSecret == "" {
		f.Add("FINGERPRINT_SECRET_PREVIOUS requires FINGERPRINT_SECRET",
			"FINGERPRINT_SECRET_PREVIOUS", "FINGERPRINT_SECRET")
	}
}

// checkSecret returns an error if fingerprints would not protect the cards. Only serve needs it: migrate makes none.
func (c Config) checkSecret() error {
	switch n := len(c.FingerprintSecret); {
	case n >= payment.MinSecret, n == 0 && c.AllowBareFingerprints:
		return nil
	case n == 0:
		return errors.New("configuration: FINGERPRINT_SECRET is not set: give it 32 bytes or more (openssl rand -hex 32), " +
			"or set ALLOW_BARE_FINGERPRINTS=true where no real card is sent")
	default:
		return errors.New("configuration: FINGERPRINT_SECRET has fewer than 32 bytes, so that it can be guessed: " +
			"make a new one (openssl rand -hex 32), and keep this one in FINGERPRINT_SECRET_PREVIOUS for a while")
	}
}

// lease returns the lifetime of a claim: a second longer than the processor may take.
func (c Config) lease() time.Duration { return c.ProcessorTimeout + time.Second }
