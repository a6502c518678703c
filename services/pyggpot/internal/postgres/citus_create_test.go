package postgres

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/platform/apptest"
	"github.com/rowlock/rowlock/platform/dbtest"
	"github.com/rowlock/rowlock/platform/dbtest/faultproxy"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// wantPot tests that a pot is there by its id, by its name and in the list.
func wantPot(t *testing.T, r replica, want pot.Pot) {
	t.Helper()
	same := func(got pot.Pot) bool {
		return got.ID == want.ID && got.Name == want.Name && got.MaxCoins == want.MaxCoins &&
			got.CreateTime.Equal(want.CreateTime)
	}
	byID, err := r.Find(t.Context(), want.ID)
	byName, nameErr := r.FindByName(t.Context(), want.Name)
	list, _, listErr := r.List(t.Context(), 1000, 0)
	if err := errors.Join(err, nameErr, listErr); err != nil || !same(byID) || !same(byName) ||
		!slices.ContainsFunc(list, same) {
		t.Errorf("created %+v, found %+v and %+v (%v)", want, byID, byName, err)
	}
}

// createOnce: of many creators of one name one succeeds, whatever replies get lost. What is created is there by
// its id, by its name and in the list.
func createOnce(t *testing.T, c cluster) {
	t.Helper()
	stores := []replica{c.open(t), c.open(t)}
	for _, when := range []faultproxy.When{faultproxy.AfterStatement, faultproxy.BeforeStatement} {
		for i, text := range []string{"INTO pyggpot.pot_name", "created_by"} {
			before := c.cuts()
			c.cut(when, text)
			p, err := stores[0].Create(t.Context(), fmt.Sprintf("lost %d %d", when, i), 10)
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			c.stopCutting(t, before)
			wantPot(t, stores[1], p)
		}
	}

	before := c.cuts()
	for _, server := range c.servers {
		server.CutEvery(3, faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching("INTO pyggpot.pot"))
	}
	const names = 10
	var created [names]atomic.Pointer[pot.Pot]
	waittest.Together(t, 8, func(i int) error {
		for n := range names {
			p, err := stores[i%len(stores)].Create(t.Context(), fmt.Sprintf("name %d", n), 10)
			if err == nil && !created[n].CompareAndSwap(nil, &p) {
				return fmt.Errorf("%s was created twice", p.Name)
			}
			if outcome, ours := sqldb.OutcomeOf(err); ours && outcome == sqldb.Unknown || !ours && err != nil &&
				!errors.Is(err, pot.ErrExists) {
				return err
			}
		}
		return nil
	})
	c.stopCutting(t, before)
	for n := range created {
		if p := created[n].Load(); p != nil {
			wantPot(t, stores[0], *p)
			continue
		}
		t.Errorf("name %d was created by none", n)
	}
}

// finishCreations: a creator dies after it has given the name a number. The name has no pot, and the next creator
// creates it. When the number has become another pot's, since the sequence went back, the name gets another one.
func finishCreations(t *testing.T, c cluster) {
	t.Helper()
	r := c.open(t)
	other := r.mustCreate(t, "other", 10)
	apptest.Execute(t, c.db, `INSERT INTO pyggpot.pot_name VALUES ('left', 700)`,
		fmt.Sprintf(`INSERT INTO pyggpot.pot_name VALUES ('stolen', %d)`, other))
	for _, name := range []string{"left", "stolen"} {
		if _, err := r.FindByName(t.Context(), name); !errors.Is(err, pot.ErrNotFound) {
			t.Errorf("%s before it is created: %v", name, err)
		}
		p, err := r.Create(t.Context(), name, 10)
		if err != nil || p.ID == other || name == "left" && p.ID != 700 {
			t.Errorf("%+v, %v", p, err)
		}
		wantPot(t, r, p)
		if _, err := r.Create(t.Context(), name, 10); !errors.Is(err, pot.ErrExists) {
			t.Errorf("%s, created twice: %v", name, err)
		}
	}
	apptest.Execute(t, c.db, `SELECT setval('pyggpot.pot_ids', 1, false)`)
	p, err := r.Create(t.Context(), "after a step back", 10)
	if err != nil || p.ID == other {
		t.Errorf("%+v, %v", p, err)
	}
	wantPot(t, r, p)
	for range 3 {
		if _, err := r.Create(t.Context(), "other", 10); !errors.Is(err, pot.ErrExists) {
			t.Error(err)
		}
	}
	var last pot.ID
	err = c.db.GetContext(t.Context(), &last, `SELECT last_value FROM pyggpot.pot_ids`)
	if err != nil || last != p.ID {
		t.Errorf("the last number is %d (%v): a name that exists took one", last, err)
	}
}

// TestUnansweredCreation: the answers stay away. A name alone is nothing, a pot may be there.
func TestUnansweredCreation(t *testing.T) {
	t.Parallel()
	dsn, server := apptest.OneServer(t, Migrations(), distributable()...)
	r := cluster{dsn: dsn}.open(t)
	for _, lost := range []struct {
		text string
		want sqldb.Outcome
	}{{"pot_name AS n", sqldb.NotApplied}, {"pot AS p (id", sqldb.Unknown}} {
		server.CutEvery(1, faultproxy.AfterStatement, faultproxy.RST, faultproxy.Matching(lost.text))
		_, err := r.Create(t.Context(), "pot", 10)
		server.StopCutting()
		if outcome, ours := sqldb.OutcomeOf(err); !ours || outcome != lost.want {
			t.Errorf("%s: %v", lost.text, err)
		}
	}
	if p, err := r.FindByName(t.Context(), "pot"); err != nil || p.MaxCoins != 10 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestDistributionKeepsPots: a schema that is in use keeps its pots, coins and names when it is distributed.
func TestDistributionKeepsPots(t *testing.T) {
	t.Parallel()
	plain, db, dsn := open(t)
	full, empty := plain.mustCreate(t, "full", 10), plain.mustCreate(t, "empty", 20)
	change := func(pot.Pot) (pot.Contents, error) {
		return pot.Contents{pot.Gold: 3, pot.Bronze: 4, pot.Silver: 0}, nil
	}
	if err := plain.Change(t.Context(), full, change); err != nil {
		t.Fatal(err)
	}
	apptest.Execute(t, db, append(distributable(), apptest.StandIns()...)...)
	r := cluster{dsn: dsn}.open(t)
	if err := r.Change(t.Context(), full, addGold(1)); err != nil {
		t.Error(err)
	}
	p, err := r.FindByName(t.Context(), "full")
	if err != nil || p.Contents[pot.Gold] != 4 || p.Contents[pot.Bronze] != 4 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := r.Create(t.Context(), "next", 10); err != nil || p.ID <= empty {
		t.Errorf("%+v, %v", p, err)
	}
	if _, total, err := r.List(t.Context(), 10, 0); err != nil || total != 3 {
		t.Errorf("%d pots, %v", total, err)
	}
	cluster{dsn: dsn, db: dbtest.Dial(t, dsn)}.wantTotal(t, 8)
}
