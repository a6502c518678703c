package config

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"text/tabwriter"
)

// Usage returns a table with the name, the default and the meaning of each variable of the struct that dst points to.
func Usage(dst any) string {
	var table strings.Builder
	tw := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, f := range inspect(dst).fields {
		value := f.byDefault
		if f.required {
			value = "(required)"
		}
		_, _ = fmt.Fprintf(tw, "  %s\t%s\t%s\n", f.name, value, f.help) // a strings.Builder cannot fail
	}

	_ = tw.Flush() // as above
	return table.String()
}

// Masked returns the values of the struct that dst points to as attributes of a log line, with secrets masked. An empty
// secret stays empty, which shows that it is not set.
func Masked(dst any) []slog.Attr {
	l := inspect(dst)
	attrs := make([]slog.Attr, len(l.fields))
	for i, f := range l.fields {
		attrs[i] = slog.String(f.name, f.masked())
	}
	return attrs
}

// mask is printed in place of a secret.
const mask = "***"

func (f field) masked() string {
	value := text(f.value)
	switch {
	case f.secret == "" || value == "":
		return value
	case f.secret == secretURL:
		return maskURL(value)
	default:
		return mask
	}
}

// maskURL masks the passwords in a URL: the user's, and the parameters that lib/pq takes for one. An unencoded special
// character in a password shifts the borders between the parts of the URL, so that pieces of the password end up in
// host, path or fragment; maskURL masks such a value completely.
func maskURL(value string) string {
	u, err := url.Parse(value)
	if err != nil || u.Scheme == "" || u.Opaque != "" || u.Fragment != "" || strings.HasSuffix(value, "#") ||
		strings.Contains(u.Host, "@") || strings.Contains(u.EscapedPath(), "@") || strings.Contains(u.RawQuery, "@") {
		return mask
	}

	pairs := strings.Split(u.RawQuery, "&")
	for i, pair := range pairs {
		key, _, _ := strings.Cut(pair, "=")
		if strings.Contains(strings.ToLower(key), "password") || strings.Contains(key, "%") {
			pairs[i] = key + "=" + mask
		}
	}

	u.RawQuery = strings.Join(pairs, "&")
	return u.Redacted()
}
