// Package config reads the environment, and is the only place that does.
//
// A configuration is a struct whose fields are tagged; [Load] fills it:
//
//	type Config struct {
//		config.Common
//		LockWait time.Duration `env:"LOCK_WAIT" envDefault:"3s" min:"1ms" help:"how long a request waits for its key"`
//		Secret   string        `env:"FINGERPRINT_SECRET" secret:"true" help:"key of the fingerprint"`
//	}
//
// The values are read by github.com/caarlos0/env, with the tags env and envDefault. These are added:
//
//   - help: what the variable means, for --help; required here or in a method Help.
//   - secret: "true" is never printed; "url" is printed without its password.
//   - oneof: the values allowed, parted by |.
//   - min, max: bounds, both included, written like a value of the variable.
//
// A variable that is set to nothing counts as not set, as in a shell's ${NAME:-default}. A struct may have two
// methods: Defaults, which replaces defaults of embedded structs, and Validate, which checks what no tag can. [Load]
// calls those of embedded structs too.
//
// All faults are reported at once, in a sentence for each variable, and no sentence repeats a secret.
package config
