package auth

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/rowlock/rowlock/platform/config"
)

const (
	// fetchTimeout bounds the time for the issuer's two answers together.
	fetchTimeout = 5 * time.Second
	// mostOfAnswer is the longest answer in bytes.
	mostOfAnswer = 256 << 10
)

// issuer fetches the published keys. Without a CA file it trusts the system's CAs, without a token file it sends no
// token.
type issuer config.Auth

// fetch returns the issuer's keys by ID, except keys of unknown types. It rereads both files each time, because the
// cluster replaces them.
func (i issuer) fetch(ctx context.Context) (map[string]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()

	client, err := i.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()

	// OpenID Connect Discovery 1.0, section 4.
	var configuration struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	address := strings.TrimSuffix(i.Issuer, "/") + "/.well-known/openid-configuration"
	if err := i.get(ctx, client, address, &configuration); err != nil {
		return nil, fmt.Errorf("the issuer's configuration: %w", err)
	}
	if configuration.Issuer != i.Issuer {
		return nil, errors.New("the issuer's configuration did not match the issuer in AUTH_ISSUER")
	}

	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := i.get(ctx, client, cmp.Or(i.KeysURL, configuration.Keys), &set); err != nil {
		return nil, fmt.Errorf("the issuer's keys: %w", err)
	}

	// Decoded one by one: a key of an unknown type must not make the others unusable.
	found := make(map[string]jose.JSONWebKey, len(set.Keys))
	for _, source := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(source, &key) == nil && key.IsPublic() && key.KeyID != "" {
			found[key.KeyID] = key
		}
	}

	if len(found) == 0 {
		return nil, errors.New("the issuer publishes no public key")
	}
	return found, nil
}

// client returns a client that trusts the CA file and follows no redirect, which could take the token elsewhere.
func (i issuer) client() (*http.Client, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if i.CAFile != "" {
		pem, err := os.ReadFile(i.CAFile)
		if err != nil {
			return nil, fmt.Errorf("AUTH_CA_FILE: %w", err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("AUTH_CA_FILE: %s holds no certificate in PEM", i.CAFile)
		}
	}
	return &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// get decodes the JSON at the address into dst. It uses TLS only, sends the replica's token to the hosts that the
// configuration names, and fails unless the answer is 200. No text of the answer is in its error, which is logged.
func (i issuer) get(ctx context.Context, client *http.Client, address string, dst any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return fmt.Errorf("the URL: %w", err)
	}
	if request.URL.Scheme != "https" {
		return fmt.Errorf("%s is not fetched: keys must come over https", request.URL.Redacted())
	}

	if i.TokenFile != "" && (address == i.KeysURL || sameHost(request.URL, i.Issuer)) {
		token, err := os.ReadFile(i.TokenFile)
		if err != nil {
			return fmt.Errorf("AUTH_TOKEN_FILE: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}

	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read

	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", request.URL.Host, answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, mostOfAnswer)).Decode(dst); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return nil
}

// sameHost reports whether an https URL and an address have the same host and port.
func sameHost(u *url.URL, address string) bool {
	other, err := url.Parse(address)
	return err == nil && strings.EqualFold(u.Hostname(), other.Hostname()) &&
		cmp.Or(u.Port(), "443") == cmp.Or(other.Port(), "443")
}
