package payment_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/services/payments/internal/payment"
)

// fieldOf returns the field that an error names, "" for nil.
func fieldOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	bad, ok := errors.AsType[*payment.InvalidError](err)
	if !ok {
		t.Fatalf("not an InvalidError: %v", err)
	}
	return bad.Field
}

func TestCardRules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		number      string
		month, year int
		cvc, field  string
	}{
		{good, 12, 2030, "123", ""},
		{"4222222222222", 1, 2030, "123", ""},       // 13 digits
		{"6304000000000000000", 1, 2030, "123", ""}, // 19
		{"378282246310005", 1, 2030, "1234", ""},
		{"378282246310005", 1, 2030, "123", "card.cvc"},
		{"4242424242424241", 12, 2030, "123", "card.number"},
		{"424242424242", 12, 2030, "123", "card.number"},
		{"63040000000000000000", 12, 2030, "123", "card.number"},
		{"4242 4242 4242 4242", 12, 2030, "123", "card.number"},
		{"٤٢٤٢٤٢٤٢٤٢٤٢٤٢٤٢", 12, 2030, "123", "card.number"},
		{"", 12, 2030, "123", "card.number"},
		{good, 0, 2030, "123", "card.exp_month"},
		{good, 13, 2030, "123", "card.exp_month"},
		{good, 12, 30, "123", "card.exp_year"},
		{good, 12, 2100, "123", "card.exp_year"},
		{good, 12, 2030, "", "card.cvc"},
		{good, 12, 2030, "12", "card.cvc"},
		{good, 12, 2030, "1234", "card.cvc"},
		{good, 12, 2030, "12x", "card.cvc"},
	} {
		_, err := payment.NewCard(tc.number, tc.month, tc.year, tc.cvc)
		if field := fieldOf(t, err); field != tc.field {
			t.Errorf("%q %d/%d %q: field %q (%v), want %q", tc.number, tc.month, tc.year, tc.cvc, field, err, tc.field)
		}
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	card := newCard(t)
	card.ExpMonth, card.ExpYear = 12, 2030
	for at, field := range map[string]string{
		"2030-12-31T23:59:59Z": "", "2031-01-01T11:59:59Z": "", // still December in the west
		"2031-01-01T12:00:00Z": "card.exp_year", "2029-01-01T00:00:00Z": "",
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := fieldOf(t, card.CheckExpiry(now)); got != field {
			t.Errorf("at %s: %q, want %q", at, got, field)
		}
	}
	card.ExpMonth = 2
	if got := fieldOf(t, card.CheckExpiry(time.Date(2030, 3, 2, 0, 0, 0, 0, time.UTC))); got != "card.exp_month" {
		t.Errorf("in March: %q", got)
	}
}

func TestRequestRules(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64)
	for _, tc := range []struct {
		ride, rider string
		amount      int64
		currency    string
		field       string
	}{
		{"r", "r", 1, "EUR", ""},
		{long, long, payment.MaxAmount, "EUR", ""},
		{"A.b_c:d-9", "r", 1, "EUR", ""},
		{"", "r", 1, "EUR", "ride_id"},
		{long + "x", "r", 1, "EUR", "ride_id"},
		{"a b", "r", 1, "EUR", "ride_id"},
		{"é", "r", 1, "EUR", "ride_id"},
		{"a\n", "r", 1, "EUR", "ride_id"},
		{"x" + good + "y", "r", 1, "EUR", "ride_id"},
		{"r", "", 1, "EUR", "rider_id"},
		{"r", good, 1, "EUR", "rider_id"},
		{"r", "4242-4242-4242-4242", 1, "EUR", "rider_id"},
		{"4242-._4242:4242--4242", "r", 1, "EUR", "ride_id"},
		{"r", "r", 0, "EUR", "amount"},
		{"r", "r", -1, "EUR", "amount"},
		{"r", "r", payment.MaxAmount + 1, "EUR", "amount"},
		{"r", "r", 1, "eur", "currency"},
		{"r", "r", 1, "EURO", "currency"},
		{"r", "r", 1, "", "currency"},
		{"r", "r", 1, "E1R", "currency"},
	} {
		_, err := payment.NewRequest(tc.ride, tc.rider, tc.amount, tc.currency, newCard(t))
		if field := fieldOf(t, err); field != tc.field {
			t.Errorf("%+v: field %q (%v)", tc, field, err)
		}
		if err != nil && strings.Contains(err.Error(), good) {
			t.Errorf("the error repeats the card number: %v", err)
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	now := time.Now()
	id := payment.NewID(now)
	if got, err := payment.ParseID(strings.ToUpper(string(id))); err != nil || got != id || id[14] != '7' {
		t.Errorf("%s became %s, %v", id, got, err)
	}
	if later := payment.NewID(now.Add(time.Millisecond)); later <= id {
		t.Errorf("%s does not come after %s", later, id)
	}
	text := string(id)
	for _, bad := range []string{"", "x", text + "0", strings.ReplaceAll(text, "-", ""), "g" + text[1:], good} {
		if _, err := payment.ParseID(bad); fieldOf(t, err) != "id" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// No way of printing a card prints its number or its code.
func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	r := newRequest(t)
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "request", r, "number", r.Card.Number)
	for _, text := range []string{
		fmt.Sprintf("%v %+v %#v %s", r, r, r, r.Card.Number), string(encoded), log.String(), fmt.Sprint(&r.Card),
	} {
		if strings.Contains(text, good) || strings.Contains(text, `123"`) || !strings.Contains(text, "***") {
			t.Errorf("it prints %s", text)
		}
	}
}

func TestBrands(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{
		good: "visa", "5555555555554444": "mastercard", "2223003122003222": "mastercard", "378282246310005": "amex",
		"6011111111111117": "discover", "3566002020360505": "jcb", "3056930009020004": "diners",
		"6200000000000005": "unionpay", "6304000000000000": "unknown",
	} {
		cvc := "123"
		if want == "amex" {
			cvc = "1234"
		}
		c, err := payment.NewCard(number, 1, 2030, cvc)
		if err != nil || c.Face().Brand != want || !strings.HasSuffix(number, c.Face().Last4) {
			t.Errorf("%s: %+v, %v, want %s", number, c.Face(), err, want)
		}
	}
}

func TestProcessorKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[payment.Key]string{
		// printf 'abc\0000' | sha256sum; a charge that was made before an upgrade is known by it
		{Value: "abc"}: "e16f2935cab918f9b90988378ba435fe71dcb145781b965a08383c77a5450f18",
		// printf 'shop\000abc\0000' | sha256sum
		{Caller: "shop", Value: "abc"}: "f5924bbb977fe40e89136eedf3328059b63ad421dcbbb5f2c04f4c4bec692648",
	} {
		if got := payment.ProcessorKey(key, 0); got != want {
			t.Errorf("%+v: %s, want %s", key, got, want)
		}
	}
	seen := make(map[string]bool)
	for _, key := range []payment.Key{{"", "a"}, {"", "b"}, {"a", "a"}, {"b", "a"}, {"a", "b"}, {"aa", "b"}, {"a", "ab"}} {
		for n := range 3 {
			seen[payment.ProcessorKey(key, n)] = true
		}
	}
	if len(seen) != 21 {
		t.Errorf("two of 21 payments share a processor key: there are %d", len(seen))
	}
}
