package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
)

// fakePots keeps pots in the tables that the bench looks into, but loses every loseth addition.
type fakePots struct {
	do   func(statement string, args ...any)
	lose int

	mu   sync.Mutex
	adds int
	pots int
}

func (f *fakePots) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Name  string `json:"pot_name"`
		ID    int    `json:"pot_id"`
		Count int    `json:"count"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	answer := `{"coins":[]}`

	switch {
	case strings.HasSuffix(r.URL.Path, "CreatePot"):
		f.pots++
		answer = fmt.Sprintf(`{"pot_id":%d}`, f.pots)
		f.do(`INSERT INTO pyggpot.pot VALUES ($1, $2, 0)`, f.pots, request.Name)
		f.do(`INSERT INTO pyggpot.coin VALUES ($1, 0)`, f.pots)
	case strings.HasSuffix(r.URL.Path, "AddCoins"):
		if f.adds++; f.lose == 0 || f.adds%f.lose != 0 {
			f.do(`UPDATE pyggpot.pot SET coins = coins + 1 WHERE id = $1`, request.ID)
			f.do(`UPDATE pyggpot.coin SET coin_count = coin_count + 1 WHERE pot_id = $1`, request.ID)
		}
	}

	_, _ = io.WriteString(w, answer)
}

// executor returns what runs a statement.
func executor(t *testing.T, dsn string) func(string, ...any) {
	t.Helper()

	db := apptest.Open(t, dsn)

	return func(statement string, args ...any) {
		conn, err := db.Connx(t.Context())
		if err != nil {
			return
		}

		if _, err := conn.ExecContext(t.Context(), statement, args...); err != nil {
			t.Error(err)
		}

		_ = conn.Close()
	}
}

func TestPyggpotBenchCountsTheCoins(t *testing.T) {
	t.Parallel()

	for name, lose := range map[string]int{"an honest service": 0, "one that loses coins": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dsn := dbtest.Empty(t)
			apptest.Execute(t, apptest.Open(t, dsn), `CREATE SCHEMA pyggpot`, `CREATE TABLE pyggpot.pot (id int, pot_name text, coins int)`,
				`CREATE TABLE pyggpot.coin (pot_id int, coin_count int)`)

			fake := httptest.NewServer(&fakePots{do: executor(t, dsn), lose: lose})
			defer fake.Close()

			o := PyggpotDefaults().Quick()
			o.Duration, o.Replicas, o.Connections, o.Items = time.Second, 1, 3, 5

			_, err := Pyggpot(t.Context(), System{Replicas: []string{strings.TrimPrefix(fake.URL, "http://")}, DatabaseURL: dsn}, o, io.Discard)
			if errors.Is(err, ErrNotExact) != (lose != 0) || err != nil && lose == 0 {
				t.Fatalf("%v", err)
			}
		})
	}
}

func TestPyggpotBars(t *testing.T) {
	t.Parallel()

	series := func(name string, s Summary, sum *SumCheck) Series {
		made := Series{Name: name, Baseline: scenarioBarePots, Runs: []Run{{Summary: s, Sum: sum}}}
		made.summarize()

		return made
	}

	for _, tc := range []struct {
		pots   float64
		p99    time.Duration
		gained int64
		many   time.Duration
		want   Verdict // of all bars
	}{
		{300, 1999 * time.Millisecond, 10, 20 * time.Millisecond, Met},
		{299, 2 * time.Second, 9, 21 * time.Millisecond, Missed},
	} {
		sum := &SumCheck{Gained: tc.gained}
		sum.Acknowledged = 10
		r := &Report{Service: servicePyggpot, Options: PyggpotDefaults(), Scenarios: []Series{
			series(scenarioBarePots, Summary{PerSecond: 1000}, nil),
			series(scenarioPots, Summary{PerSecond: tc.pots}, nil),
			series(scenarioOnePot, Summary{PerSecond: 1, Latency: Latency{P99: tc.p99}}, sum),
			series(scenarioFewAtRandom, Summary{Latency: Latency{P50: 10 * time.Millisecond}}, nil),
			series(scenarioManyAtRandom, Summary{Latency: Latency{P50: tc.many}}, nil),
		}}
		r.judge()

		for _, bar := range r.Bars {
			if bar.Verdict != tc.want {
				t.Errorf("%+v: %+v", tc, bar)
			}
		}

		if len(r.Bars) != 4 {
			t.Errorf("%d bars", len(r.Bars))
		}
	}
}
