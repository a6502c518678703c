package telemetry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// queueSize is how many spans may wait for the collector.
const queueSize = "OTEL_BSP_MAX_QUEUE_SIZE"

// environ reads variables as the SDK does: blank is unset.
type environ map[string]string

func (e environ) get(name string) string { return strings.TrimSpace(e[name]) }

// first is the first of the names that is set, and its value.
func (e environ) first(names ...string) (name, value string) {
	for _, name := range names {
		if value := e.get(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// check refuses what the SDK would log and then take for something else: a
// misspelt sampler traces everything, a bad header is left out. No sentence repeats
// what may hold a secret: endpoints and headers.
func (e environ) check() error {
	err := errors.Join(e.checkSampler(), e.checkNumbers(), e.checkWords())
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"} {
		err = errors.Join(err, checkEndpoint(prefix+"ENDPOINT", e.get(prefix+"ENDPOINT")),
			checkHeaders(prefix+"HEADERS", e.get(prefix+"HEADERS")), e.checkFiles(prefix))
	}
	return err
}

// checkEndpoint refuses what the SDK would report once, and then send to localhost.
func checkEndpoint(name, value string) error {
	if value == "" {
		return nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s is not a URL such as http://collector:4318", name)
	}
	if u.User != nil {
		return fmt.Errorf("%s has a user or a password, which would not be sent: they belong in OTEL_EXPORTER_OTLP_HEADERS", name)
	}
	return nil
}

// checkHeaders reads name=value,name=value with values percent-encoded.
func checkHeaders(name, value string) error {
	if value == "" {
		return nil
	}
	for i, pair := range strings.Split(value, ",") {
		key, encoded, found := strings.Cut(pair, "=")
		if key = strings.TrimSpace(key); !found || key == "" || strings.ContainsFunc(key, notInHeaderName) {
			return fmt.Errorf("%s: entry %d is not name=value (a comma inside a value is written %%2C)", name, i+1)
		}
		if decoded, err := url.PathUnescape(encoded); err != nil || strings.ContainsFunc(decoded, isControl) {
			return fmt.Errorf("%s: the value of entry %d is not percent-encoded text (a percent sign is written %%25)", name, i+1)
		}
	}
	return nil
}

// notInHeaderName says that r is not of a token (RFC 9110, section 5.6.2).
func notInHeaderName(r rune) bool {
	alphanumeric := '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// checkSampler: the SDK takes what it does not know for "trace everything".
func (e environ) checkSampler() error {
	const name, arg = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	known := []string{
		"always_on", "always_off", "traceidratio",
		"parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
	}
	if sampler := e.get(name); sampler != "" && !slices.Contains(known, strings.ToLower(sampler)) {
		return fmt.Errorf("%s %q is none of %s", name, sampler, strings.Join(known, ", "))
	}
	if ratio := e.get(arg); ratio != "" {
		const bits = 64
		if v, err := strconv.ParseFloat(ratio, bits); err != nil || !(v >= 0 && v <= 1) { // NaN is neither
			return fmt.Errorf("%s %q is not a number from 0 to 1", arg, ratio)
		}
	}
	return nil
}

// checkNumbers refuses those of which the SDK would take its own default.
func (e environ) checkNumbers() error {
	for name, least := range map[string]int{
		"OTEL_EXPORTER_OTLP_TIMEOUT": 0, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": 0,
		"OTEL_BSP_SCHEDULE_DELAY": 0, "OTEL_BSP_EXPORT_TIMEOUT": 0,
		queueSize: 1, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": 1,
		"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": -1, "OTEL_ATTRIBUTE_COUNT_LIMIT": -1,
		"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": -1, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": -1,
		"OTEL_SPAN_EVENT_COUNT_LIMIT": -1, "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": -1,
		"OTEL_SPAN_LINK_COUNT_LIMIT": -1, "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT": -1,
	} {
		if value := e.get(name); value != "" {
			if n, err := strconv.Atoi(value); err != nil || n < least {
				return fmt.Errorf("%s %q is not a whole number of at least %d", name, value, least)
			}
		}
	}
	return nil
}

// checkWords refuses what the SDK would take for the word that is not meant.
func (e environ) checkWords() error {
	const insecure, compression = "INSECURE", "COMPRESSION"
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"} {
		if value := e.get(prefix + insecure); value != "" && !isBool(value) {
			return fmt.Errorf("%s%s %q is not true or false", prefix, insecure, value)
		}
		if value := e.get(prefix + compression); value != "" && value != "gzip" && value != "none" {
			return fmt.Errorf("%s%s %q is not gzip or none", prefix, compression, value)
		}
	}
	return nil
}

func isBool(value string) bool {
	return strings.EqualFold(value, "true") || strings.EqualFold(value, "false")
}

// checkFiles refuses certificates without which the SDK would go on.
func (e environ) checkFiles(prefix string) error {
	if file := e.get(prefix + "CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file) //nolint:gosec // the operator names it
		if err != nil {
			return fmt.Errorf("%sCERTIFICATE: %w", prefix, err)
		}
		if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			return fmt.Errorf("%sCERTIFICATE: %s holds no certificate (PEM)", prefix, file)
		}
	}
	cert, key := e.get(prefix+"CLIENT_CERTIFICATE"), e.get(prefix+"CLIENT_KEY")
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return fmt.Errorf("%[1]sCLIENT_CERTIFICATE and %[1]sCLIENT_KEY go together, and one is not set", prefix)
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("%sCLIENT_CERTIFICATE and its key: %w", prefix, err)
	}
	return nil
}
