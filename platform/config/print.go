package config

import (
	"encoding"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"reflect"
	"strings"
	"text/tabwriter"
)

// Row is one variable in the table that --help prints and a README repeats.
type Row struct {
	Name     string
	Default  string // as it would be written in the environment; empty when there is none
	Help     string
	Secret   bool
	Required bool
}

// Table returns the variables of the struct that dst points to, in the order of
// its fields. For a struct that [Load] would refuse whatever the environment,
// it returns nil.
func Table(dst any) []Row {
	l, err := inspect(dst)
	if err != nil {
		return nil
	}
	rows := make([]Row, len(l.fields))
	for i, f := range l.fields {
		rows[i] = f.row
	}
	return rows
}

// Usage writes the table as --help shows it: variable, default, meaning.
func Usage(w io.Writer, dst any) error {
	l, err := inspect(dst)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range l.fields {
		value := f.row.Default
		if f.row.Required {
			value = "(required)"
		}
		if _, err := fmt.Fprintf(tw, "  %s\t%s\t%s\n", f.row.Name, value, f.row.Help); err != nil {
			return fmt.Errorf("config: print the table: %w", err)
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("config: print the table: %w", err)
	}
	return nil
}

// Masked returns the values of the struct that dst points to, to be logged once
// at start: one attribute for each variable, secrets masked. An empty secret
// stays empty, because whether it is set is the first question. For a struct
// that [Load] would refuse whatever the environment, it returns nil.
func Masked(dst any) []slog.Attr {
	l, err := inspect(dst)
	if err != nil {
		return nil
	}
	attrs := make([]slog.Attr, len(l.fields))
	for i, f := range l.fields {
		attrs[i] = slog.String(f.row.Name, f.masked())
	}
	return attrs
}

// mask is what is printed in the place of a secret.
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

// maskURL removes the passwords from a URL: that of the user, and the
// parameters that lib/pq takes for one. A password with a character that ought
// to be encoded moves the borders between the parts of a URL, so that pieces of
// it turn up in host, path or fragment. Such a value is masked as a whole.
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

// text writes a value as it could be written in the environment.
func text(v reflect.Value) string {
	if m, ok := reflect.TypeAssert[encoding.TextMarshaler](v); ok {
		if b, err := m.MarshalText(); err == nil {
			return string(b)
		}
	}
	return fmt.Sprint(v.Interface())
}
