//go:build e2e

package e2e

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// The service accounts that call. The policy knows all but the last.
const (
	caller  = "caller" // may do everything: the story's own pods
	reader  = "reader" // may read
	unknown = "unknown"
)

// projected is the volume with a caller's token, as the chart's README shows it.
const projected = `projected: {sources:
      [{serviceAccountToken: {audience: rowlock, path: token, expirationSeconds: 600}}]}`

// skew is the time after its end for which the services still accept a token.
const skew = time.Minute

// createAccounts creates the service accounts, and reads who issues their tokens, as the chart's README says.
func (s *story) createAccounts(t *T) {
	t.Helper()
	for _, name := range []string{caller, reader, unknown} {
		must(t, "create", "serviceaccount", name)
	}
	var issuer struct{ Issuer string }
	found := must(t, "get", "--raw", "/.well-known/openid-configuration")
	if err := json.Unmarshal([]byte(found), &issuer); err != nil || issuer.Issuer == "" {
		t.Fatalf("the issuer: %v: %s", err, found)
	}
	s.issuer = issuer.Issuer
}

// subject returns what an account is called in tokens and rules.
func (p place) subject(account string) string {
	return "system:serviceaccount:" + string(p) + ":" + account
}

// auth returns the flags by which callers are asked for a token; readers are accounts that may read.
func (s *story) auth(readers ...string) []string {
	type rule struct {
		Subjects []string `json:"subjects"`
		Services []string `json:"services"`
		Allow    []string `json:"allow"`
	}

	rules := []rule{
		{[]string{s.subject(caller)}, targets.Names(), []string{"read", "change", "administer"}},
	}
	for _, account := range append(readers, reader) {
		rules = append(rules, rule{[]string{s.subject(account)}, targets.Names(), []string{"read"}})
	}

	text, err := json.Marshal(rules)
	if err != nil {
		panic(err) // strings only
	}
	return []string{
		"--set=global.auth.enabled=true", "--set-string=global.auth.issuer=" + s.issuer,
		"--set-json=global.auth.rules=" + string(text),
	}
}

// newToken returns a token of an account for ten minutes, the least that Kubernetes makes.
func newToken(t *T, account, audience string) string {
	t.Helper()
	return strings.TrimSpace(must(t, "create", "token", account, "--audience="+audience, "--duration=10m"))
}

// ending returns a token that ends then, and is otherwise like this one. It is signed
// by the cluster's own key, because Kubernetes makes none that ends within a test.
func (s *story) ending(t *T, token string, end time.Time) string {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256, jose.RS256})
	if err != nil {
		t.Fatal(err)
	}
	claims := map[string]any{}
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		t.Fatal(err)
	}

	began := end.Add(-10 * time.Minute).Unix()
	claims["exp"], claims["iat"], claims["nbf"] = end.Unix(), began, began

	key, err := readKey(s.issuerKey)
	if err != nil {
		t.Fatalf("%s: %v", s.issuerKey, err)
	}
	algorithm := jose.RS256
	if _, ok := key.(*ecdsa.PrivateKey); ok {
		algorithm = jose.ES256
	}

	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: parsed.Headers[0].KeyID},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// readKey reads a private key, in any of the forms in which clusters keep theirs.
func readKey(file string) (crypto.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no PEM")
	}
	switch block.Type {
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	}
}

// identified demands that each service answers by who calls. (lab/acceptance has our clients call all of them.)
func (s *story) identified(t *T) {
	tokens := map[string]string{
		"none": "", "other audience": newToken(t, caller, "other"), "other account": newToken(t, unknown, "rowlock"),
		"right": newToken(t, caller, "rowlock"),
	}
	if s.issuerKey == "" {
		t.Log("NOT CHECKED: a token that has ended, because the cluster's key is not at hand")
	} else {
		tokens["ended"] = s.ending(t, tokens["right"], time.Now().Add(-skew-time.Second))
	}
	s.tours(t, false) // what is asked for below
	s.table(t, tokens)
}

// rotation is a load on each service with a token that is replaced.
type rotation struct {
	loads []*load
	first string
}

// rotate starts loads with a token that soon ends, and replaces it when all run.
func (s *story) rotate(t *T, rate, clients int) rotation {
	t.Helper()
	const life = 40 * time.Second // the loads start meanwhile, on a busy machine too
	second := newToken(t, caller, "rowlock")
	r := rotation{first: newToken(t, caller, "rowlock")}
	if s.issuerKey != "" {
		r.first = s.ending(t, second, time.Now().Add(life-skew))
	}

	put := func(token string) {
		apply(t, "{apiVersion: v1, kind: Secret, metadata: {name: rotated}, stringData: {token: "+token+"}}")
	}
	put(r.first)

	rotated := s.settings
	rotated.token = "secret: {secretName: rotated}"
	r.loads = startLoads(t, rotated, rate, clients, s.services...)
	put(second)

	var pods []string
	for _, l := range r.loads {
		pods = append(pods, l.name)
	}
	hurry(t, pods...)
	return r
}

// stop ends the loads, not before the token that they began with has ended.
func (s *story) stop(t *T, r rotation) []*targets.Report {
	t.Helper()
	if s.issuerKey != "" && slices.Contains(s.services, targets.Iidy) {
		eventually(t, time.Minute, func() error {
			if got := s.ask(t, map[string]string{"first": r.first})[targets.Iidy+"1 first"]; got != "401" {
				return fmt.Errorf("the token that the loads began with is answered %s", got)
			}
			return nil
		})
	}
	return stopLoads(t, r.loads)
}

// hurry makes the kubelet look at the pods' volumes now, and not within a minute or two.
func hurry(t *T, pods ...string) {
	t.Helper()
	args := append([]string{"annotate", "--overwrite", "pod"}, pods...)
	must(t, append(args, "looked="+time.Now().Format("150405.000"))...)
}

// policyIsReloaded demands that the replicas of iidy follow a policy by which the unknown account may read.
func (s *story) policyIsReloaded(t *T) {
	t.Helper()
	for _, pod := range s.pods(t, targets.Iidy) {
		hurry(t, pod.Name)
	}
	token := map[string]string{"now": newToken(t, unknown, "rowlock")}
	eventually(t, time.Minute, func() error {
		if got := s.ask(t, token)[targets.Iidy+"1 now"]; got != "200" {
			return fmt.Errorf("what the new policy allows is answered %s", got)
		}
		return nil
	})
}

// table demands the answers of every service to every kind of token.
func (s *story) table(t *T, tokens map[string]string) {
	t.Helper()
	want := map[string]string{
		"none": "401", "other audience": "401", "ended": "401", "other account": "403", "right": "200",
	}
	grpc := map[string]string{"401": "16", "403": "7", "200": "0"}

	answers := s.ask(t, tokens)
	for _, what := range slices.Sorted(maps.Keys(answers)) {
		request, token, _ := strings.Cut(what, " ")
		expected := want[token]
		if strings.HasSuffix(request, "-grpc") {
			expected = grpc[expected]
		}
		if answers[what] != expected {
			t.Errorf("%s is answered %q, want %s", what, answers[what], expected)
		}
	}

	if len(answers) < len(tokens)*len(s.rows) {
		t.Errorf("%d answers to %d tokens by %d services", len(answers), len(tokens), len(s.rows))
	}

	// What an account may not do is refused, whatever else it may do.
	change := `curl --silent --output /dev/null --write-out '%{http_code}' --request POST http://rowlock-events/events`
	got := s.shell(t, change+bearer(newToken(t, reader, "rowlock")))
	if slices.Contains(s.services, targets.Events) && got != "403" {
		t.Errorf("a change by an account that may read is answered %s", got)
	}
}

// ask sends the requests of every service with every token from the client's pod, and returns the statuses by request
// and token; gRPC has statuses of a different kind.
func (s *story) ask(t *T, tokens map[string]string) map[string]string {
	t.Helper()
	var script strings.Builder
	for _, row := range s.rows {
		address := "http://rowlock-" + row.Name
		addresses := strings.NewReplacer("URL", address, "INTERNAL", address+"-internal:8081")
		for i, request := range row.Asks {
			what := fmt.Sprint(row.Name, i+1)
			read := ` --write-out '%{http_code}\n'`
			if strings.Contains(request, "application/grpc") { // the status is among the trailers
				what += "-grpc"
				read = " --dump-header - | tr -d '\\r' | sed -n 's/^grpc-status: //p'"
			}
			for name, token := range tokens {
				_, _ = fmt.Fprintf(&script, "printf '%s %s='; printf '\\0\\0\\0\\0\\2\\010\\001' |", what, name)
				_, _ = fmt.Fprintf(&script, " curl --silent --max-time 10 --output /dev/null %s%s%s\n",
					addresses.Replace(request), bearer(token), read)
			}
		}
	}

	answers := map[string]string{}
	for line := range strings.Lines(s.shell(t, script.String())) {
		what, answer, _ := strings.Cut(strings.TrimSpace(line), "=")
		answers[what] = answer
	}
	return answers
}

func bearer(token string) string {
	if token == "" {
		return ""
	}
	return " --header 'Authorization: Bearer " + token + "'"
}

// shell runs a script in the client's pod. It is not in the command's arguments, because it may hold tokens.
func (s *story) shell(t *T, script string) string {
	t.Helper()
	return run(t, script, "kubectl", "--namespace", string(s.place), "exec", "--stdin", "client", "--", "sh", "-s")
}
