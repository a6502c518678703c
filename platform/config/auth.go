package config

import "net/url"

// AuthToken is the value of AUTH that makes tokens mandatory.
const AuthToken = "token"

// Auth holds the variables for identifying callers.
type Auth struct {
	// Mode is off or token.
	Mode string `env:"AUTH" envDefault:"off" oneof:"off|token"`
	// Issuer is the URL of the token issuer.
	Issuer string `env:"AUTH_ISSUER"`
	// KeysURL is where the issuer's keys are; empty: where its configuration says.
	KeysURL string `env:"AUTH_KEYS_URL"`
	// Audience must be one of a token's audiences.
	Audience string `env:"AUTH_AUDIENCE" envDefault:"rowlock"`
	// CAFile holds the CA certificates for the issuer's.
	CAFile string `env:"AUTH_CA_FILE"`
	// TokenFile holds the token that authenticates the replica to the issuer.
	TokenFile string `env:"AUTH_TOKEN_FILE"`
	// Policy is the path of the policy file.
	Policy string `env:"AUTH_POLICY"`
}

// Help describes the variables.
func (Auth) Help() map[string]string {
	return map[string]string{
		"AUTH":        "off, or token: each request needs Authorization: Bearer with a JWT, and a rule of the policy",
		"AUTH_ISSUER": "token: URL of the issuer; its /.well-known/openid-configuration names the keys",
		"AUTH_KEYS_URL": "token: URL of the issuer's keys; empty: the one in its configuration, which gets the token of " +
			"AUTH_TOKEN_FILE only if it is on the issuer's host",
		"AUTH_AUDIENCE":   "token: the audience that a JWT must have",
		"AUTH_CA_FILE":    "token: file with the CA certificates for the issuer, in PEM; empty: the system's",
		"AUTH_TOKEN_FILE": "token: file with the token to authenticate to the issuer, as Kubernetes requires; may be empty",
		"AUTH_POLICY":     "token: file with the rules that say who may do what; reread when it changes",
	}
}

// Validate checks that AUTH=token has what it needs.
func (a Auth) Validate(f *Faults) {
	if a.Mode != AuthToken {
		return
	}
	if a.Issuer == "" {
		f.Add("AUTH_ISSUER: required with AUTH=token, such as https://kubernetes.default.svc.cluster.local", "AUTH")
	}
	for name, value := range map[string]string{"AUTH_ISSUER": a.Issuer, "AUTH_KEYS_URL": a.KeysURL} {
		if u, err := url.Parse(value); value != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
			f.Add(name+": "+quote(value)+" is not a URL that begins with https://", "AUTH")
		}
	}
	if a.Policy == "" {
		f.Add("AUTH_POLICY: required with AUTH=token", "AUTH")
	}
}
