package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	// fetchTimeout bounds the time for the issuer's two answers together.
	fetchTimeout = 5 * time.Second
	// mostOfAnswer is the longest answer in bytes.
	mostOfAnswer = 256 << 10
)

// issuer fetches the published keys.
type issuer struct {
	url       string
	caFile    string // empty: the system's CAs
	tokenFile string // empty: the issuer needs no token
}

// fetch returns the issuer's keys by ID. It rereads both files each time, because the cluster replaces them.
func (i issuer) fetch(ctx context.Context) (map[string]jose.JSONWebKey, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()

	transport, err := i.transport()
	if err != nil {
		return nil, err
	}
	defer transport.base.CloseIdleConnections()

	client := &http.Client{Transport: transport}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), i.url)
	if err != nil {
		return nil, fmt.Errorf("the issuer's configuration: %w", err)
	}

	var configuration struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&configuration); err != nil {
		return nil, fmt.Errorf("the issuer's configuration: %w", err)
	}
	return fetchKeys(ctx, client, configuration.Keys)
}

// fetchKeys returns the keys at the URL, except keys of unknown types.
func fetchKeys(ctx context.Context, client *http.Client, url string) (map[string]jose.JSONWebKey, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("the issuer's keys: %w", err)
	}

	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the issuer's keys: %w", err)
	}
	defer answer.Body.Close() //nolint:errcheck // it was read

	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&set); err != nil {
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

// transport sends requests over TLS only, with the replica's token, and fails unless the answer is 200. So no redirect
// can take the token elsewhere, and no text of an answer reaches the log.
type transport struct {
	base  *http.Transport
	token string // empty: none
}

func (i issuer) transport() (*transport, error) {
	t := &transport{base: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}}

	if i.caFile != "" {
		pem, err := os.ReadFile(i.caFile)
		if err != nil {
			return nil, fmt.Errorf("AUTH_CA_FILE: %w", err)
		}
		t.base.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.base.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("AUTH_CA_FILE: %s holds no certificate in PEM", i.caFile)
		}
	}

	if i.tokenFile != "" {
		token, err := os.ReadFile(i.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("AUTH_TOKEN_FILE: %w", err)
		}
		t.token = strings.TrimSpace(string(token))
	}
	return t, nil
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s is not fetched: keys must come over https", r.URL.Redacted())
	}

	if t.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+t.token)
	}

	answer, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // as an http.RoundTripper does
	}
	answer.Body = limitedBody{io.LimitReader(answer.Body, mostOfAnswer), answer.Body}

	if answer.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s answered %s", r.URL.Host, answer.Status), answer.Body.Close())
	}
	return answer, nil
}

// limitedBody reads the beginning of a body and closes the whole.
type limitedBody struct {
	io.Reader
	io.Closer
}
