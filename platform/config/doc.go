// Package config reads the environment. No other package does.
//
// A configuration is a struct whose fields are tagged; [Load] fills it:
//
//	type Config struct {
//		config.Common
//		LockWait time.Duration `env:"LOCK_WAIT" envDefault:"3s" min:"1ms" help:"how long a request waits for its key"`
//		Secret   string        `env:"FINGERPRINT_SECRET" secret:"true" help:"key of the fingerprint"`
//	}
//
// Package github.com/caarlos0/env reads the values, with its tags env and envDefault. This package adds:
//
//   - help: the meaning of the variable, for --help; required here or in a method Help.
//   - secret: "true" is never printed; "url" is printed without its password.
//   - oneof: the allowed values, separated by |.
//   - min, max: inclusive bounds, written like a value of the variable.
//
// Line breaks at the end of a value are cut off: secrets often end with one. A variable that is set to the empty string
// counts as not set, as in a shell's ${NAME:-default}.
//
// A struct may have two methods: Defaults, which replaces defaults of embedded structs, and Validate, which checks what
// tags cannot express. [Load] calls them on embedded structs too.
//
// All faults are reported at once, one sentence per variable. No sentence contains a secret.
package config
