package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/provision"
)

// service is a row of the one table of services that the lab can run.
type service struct {
	name string
	// port is where `up` serves it, if nobody else is there.
	port int
	// schema is what the service needs in the database.
	schema provision.Service
	// worker is the command of the service's workers, of which `up` runs one
	// process; "" where there are none.
	worker string
	// secondPool says that a replica has two pools of connections.
	secondPool bool
	// try is one line for a shell that shows something when it is pasted, every
	// time; URL stands for the service's address.
	try string
}

// eventsName is the one service that a bench knows more of.
const eventsName = "events"

func services() []service {
	return []service{{
		name: "counts", port: 8083, schema: provision.Service{Name: "counts"},
		try: `curl -s -o /dev/null -H 'Content-Type: application/json' -d '{"itemId":"apples"}' URL/api/v1/internal/counts;` +
			` curl -s -X POST URL/api/v1/counts/apples/increase`,
	}, {
		name: "payments", port: 8082, schema: provision.Service{Name: "payments"}, secondPool: true,
		try: `curl -si -H 'Content-Type: application/json' -H 'Idempotency-Key: try-1' URL/v1/payments` +
			` -d '{"ride_id":"ride-1","rider_id":"rider-1","amount":1250,"currency":"EUR",` +
			`"card":{"number":"4242424242424242","exp_month":12,"exp_year":2099,"cvc":"123"}}'`,
	}, {
		name: eventsName, port: 8085, schema: provision.Service{Name: eventsName, HistorySchema: "events_meta"}, worker: "work",
		try: `curl -s -X POST URL/events; curl -s -X POST URL/events/async; curl -s URL/events`,
	}, {
		name: "iidy", port: 8084, schema: provision.Service{Name: "iidy"},
		try: `printf 'a.txt\nb.txt\n' | curl -s URL/iidy/v1/batch/lists/downloads --data-binary @-;` +
			` curl -s "URL/iidy/v1/batch/lists/downloads?count=10"`,
	}, {
		name: "pyggpot", port: 8081, schema: provision.Service{Name: "pyggpot"},
		try: `curl -s -o /dev/null -H 'Content-Type: application/json' -d '{"pot_name":"Piggy","max_coins":1000}'` +
			` URL/pyggpot.pot.Pot/CreatePot; curl -s -H 'Content-Type: application/json'` +
			` -d '{"pot_id":1,"coins":[{"kind":"GOLD","count":1}]}' URL/pyggpot.coin.Coin/AddCoins`,
	}}
}

// choose returns the rows of the names, all when there are none.
func choose(names []string) ([]service, error) {
	all := services()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []service
	for _, s := range all {
		if slices.Contains(names, s.name) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(s service) bool { return s.name == name }) {
			known := make([]string, 0, len(all))
			for _, s := range all {
				known = append(known, s.name)
			}
			return nil, usageError{fmt.Sprintf("there is no service %q; there is %s", name, strings.Join(known, ", "))}
		}
	}
	return chosen, nil
}
