package app_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/platform/testkit/apptest"
)

// A card number and a security code in every field, header, path and key appear in no log
// line, table, metric or answer, and not in what the server shows of its sessions.
func TestCardDataAppearsNowhere(t *testing.T) {
	t.Parallel()
	// A number and a code that nothing else in the test could contain by chance.
	const pan, cvc = "4929939187355598", "7391"
	dsn, db := open(t)
	r := start(t, dsn, map[string]string{"LOG_LEVEL": "debug", "PROCESSOR_TIMEOUT": "1s"})
	var seen strings.Builder // all answers, headers included
	note := func(a apptest.Answer) {
		seen.WriteString(a.String())
		if err := a.Header.Write(&seen); err != nil {
			t.Fatal(err)
		}
	}
	valid := strings.NewReplacer(goodCard, pan, `"123"`, `"739"`).Replace(body(1250, goodCard))
	note(r.pay(t, "paid", valid).want(t, 201, "SUCCEEDED").Answer)
	note(r.pay(t, "paid", valid).Answer)
	note(r.pay(t, "paid", strings.Replace(valid, "1250", "1", 1)).want(t, 409, "IDEMPOTENCY_KEY_CONFLICT").Answer)
	amex := strings.NewReplacer(goodCard, "378282246310005", `"123"`, `"`+cvc+`"`).Replace(body(1250, goodCard))
	note(r.pay(t, "amex", amex).want(t, 201, "SUCCEEDED").Answer)
	note(r.pay(t, "timeout", body(1, timeoutCard)).want(t, 504, "PROCESSOR_TIMEOUT").Answer)

	// Each member's value and name, in turn, is the number; so is the rest of the request.
	grouped := pan[:4] + "-" + pan[4:8] + "-" + pan[8:12] + "-" + pan[12:]
	members := []string{`"ride-1"`, `"rider-1"`, "1250", `"EUR"`, `"` + goodCard + `"`, ":12,", "2099", `"123"`}
	for _, member := range members {
		for _, value := range []string{`"` + pan + `"`, pan, `"` + grouped + `"`} {
			if member == ":12," {
				value = ":" + value + ","
			}
			note(r.pay(t, "k"+strconv.Itoa(seen.Len()), strings.Replace(body(1250, goodCard), member, value, 1)).Answer)
		}
	}
	for _, name := range []string{
		"ride_id", "rider_id", "amount", "currency", "card", "number", "exp_month", "exp_year", "cvc",
	} {
		note(r.pay(t, "name", strings.Replace(body(1250, goodCard), `"`+name+`"`, `"`+pan+`"`, 1)).Answer)
	}
	for _, broken := range []string{pan, `"` + pan + `"`, "[" + pan + "]", `{"` + pan, `{"card":` + pan + `}`, ""} {
		note(r.pay(t, "broken", broken).Answer)
	}
	spaced := strings.ReplaceAll(grouped, "-", " ")
	for _, key := range []string{pan, `"` + pan + `"`, "k-" + pan, `"` + pan, spaced, grouped, pan + "\t"} {
		if a := r.pay(t, key, valid); a.Status != 400 || a.Field != "Idempotency-Key" {
			t.Errorf("key: %s", a)
		} else {
			note(a.Answer)
		}
	}
	for _, header := range []string{
		"X-Request-Id", "User-Agent", "Authorization", "Cookie", "Referer", "Accept", "Traceparent", "Tracestate", "Baggage",
		"X-Forwarded-For", "Content-Type", "Content-Encoding", pan,
	} {
		note(apptest.Send(t, http.MethodPost, r.api, valid, map[string]string{"Idempotency-Key": "paid", header: pan}))
	}
	for _, path := range []string{
		"/" + pan, "/" + pan + "/" + pan, "?ride_id=" + pan, "?ride_id=r&limit=" + pan, "?ride_id=r&after=" + pan,
		"?" + pan + "=%zz",
	} {
		note(apptest.Get(t, r.api+path))
	}
	note(apptest.Get(t, strings.TrimSuffix(r.api, "/v1/payments")+"/"+pan))
	note(apptest.Send(t, pan, r.api, "", nil))

	if n := strings.Count(r.Log.String(), "\n"); n < 60 {
		t.Fatalf("only %d log lines: the test proves nothing", n)
	}
	database := apptest.One[struct{ Tables, Sessions string }](t, db, `
		SELECT schema_to_xml('payments', true, false, '')::text AS tables,
		(SELECT string_agg(query, E'\\n') FROM pg_stat_activity WHERE datname = current_database()) AS sessions`)
	places := map[string]string{
		"an answer": seen.String(), "the log": r.Log.String(), "the metrics": r.Metrics(t),
		"a table": database.Tables, "pg_stat_activity": database.Sessions,
	}
	if !strings.Contains(places["a table"], ">5598<") || !strings.Contains(places["an answer"], `"last4":"5598"`) {
		t.Error("not even the last four digits are there: the test proves nothing")
	}
	for place, text := range places {
		for _, secret := range []string{
			pan, "4929-9391", "4929 9391", "378282246310005", timeoutCard, goodCard, `"` + cvc + `"`, ">" + cvc + "<",
		} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s holds %s: ...%s...", place, secret, text[max(0, i-80):min(len(text), i+80)])
			}
		}
	}
}
