package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/rowlock/rowlock/platform/coalesce"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// applyUpdates is applyAdds for a group that has an update in it.
func (s *Store) applyUpdates(
	ctx context.Context, pass coalesce.Pass, group []request,
) ([]coalesce.Answer[reply], error) {
	g := newUpdateGroup(group)
	st, rest := plan(g.parts)
	var unfits []*part
	if len(st.parts) > 0 {
		err := s.send(ctx, pass, st)
		if len(group) == 1 && pass.SkipLocked && errors.Is(err, coalesce.ErrLockWait) {
			return []coalesce.Answer[reply]{{Locked: true, At: len(group[0].others())}}, nil // it was the key
		}
		if err != nil {
			return nil, err
		}
		unfits = g.answer(st)
	}
	s.applyAlone(ctx, pass, g, slices.Concat(unfits, rest))
	s.replay(ctx, g)
	g.answerRepeats()
	return g.answers, nil
}

// applyAlone applies parts each by itself. It runs at most maxAlone statements; what is left after those is tried again
// in the slow lane, which does not delay the other counts.
func (s *Store) applyAlone(ctx context.Context, pass coalesce.Pass, g *updateGroup, parts []*part) {
	statements := 0
	for _, p := range g.split(parts) {
		if g.refuseOverflow(p) {
			continue
		}
		if statements++; statements > maxAlone {
			g.lockOut(p, 0)
			continue
		}
		st := planAlone(p)
		switch err := s.send(ctx, pass, st); {
		case errors.Is(err, coalesce.ErrLockWait):
			g.lockOut(p, 0)
		case err != nil:
			g.fail([]*part{p}, err)
		default:
			g.answer(st)
		}
	}
}

const (
	countsPrimaryKey = "count_values_pkey"
	// maxMeets bounds how often a statement is sent that meets a count or a key which another session has just stored.
	maxMeets = 3
)

// send runs a statement, in a pass, and stores in it what came back.
func (s *Store) send(ctx context.Context, pass coalesce.Pass, st *statement) error {
	if s.onCitus() {
		return s.sendOnShard(ctx, pass, st)
	}
	keyed := s.keyedSQL(st.callers)
	query, arrays := keyed.updates.of(pass), st.arrays
	if st.single {
		query, arrays = keyed.singles.of(pass), st.singleArrays
	}
	journalTTL := s.journalTTL
	if st.keyed > 0 { // the answers live as long as the keys, and are not deleted before them
		journalTTL = max(journalTTL, s.keyTTL+time.Minute)
	}
	args := append([]any{
		sqldb.Milliseconds(pass.Wait), nil, s.keyTTL.Microseconds(), journalTTL.Microseconds(),
	}, arrays()...)
	for meets := 1; ; meets++ {
		var locked, taken pq.Int64Array
		var result nullInts
		var waited float64
		stored, err := s.once(ctx, func(ctx context.Context, conn *sqlx.Conn, id uuid.UUID) error {
			st.id, args[1] = id, id
			return conn.QueryRowContext(ctx, query, args...).Scan(&result, &locked, &taken, &waited)
		})
		if !pass.SkipLocked && stored == nil {
			s.recordWait(waited, pass.Wait, err)
		}
		e, ours := errors.AsType[*sqldb.Error](err)
		met := ours && e.Constraint == countsPrimaryKey || inOtherPlace(err)
		switch {
		case met && meets < maxMeets:
			continue
		case met:
			return errors.Join(coalesce.ErrLockWait, err)
		case err != nil:
			return coalesce.Classify(err)
		case stored != nil:
			st.lookedUp(stored, pass.SkipLocked)
		default:
			st.returned(result, locked, taken)
		}
		return nil
	}
}

// returned stores what a statement returned.
func (st *statement) returned(result nullInts, locked, taken []int64) {
	st.starts, st.values = result[:st.keyed], result[st.keyed:]
	st.locked = make(map[int]bool, len(locked))
	for _, i := range locked {
		st.locked[int(i)-1] = true
	}
	st.taken = make(map[int]bool, len(taken))
	for _, r := range taken {
		st.taken[int(r)] = true
	}
}

// lookedUp stores what the journal has of a statement whose answer got lost. A count without a value is missing, or, in
// the pass that skips locked rows, locked: the next attempt finds out.
func (st *statement) lookedUp(result nullInts, skipped bool) {
	st.returned(result, nil, nil)
	st.taken = nil
	for i, v := range st.values {
		if skipped && !v.valid {
			st.locked[i] = true
		}
	}
}

// updateGroup holds the requests of a group and their answers.
type updateGroup struct {
	group   []request
	answers []coalesce.Answer[reply]
	parts   []*part
	leaders map[string]*leader // of each key, by its lane
	losers  []*part            // whose key was taken
	values  map[string]int64   // of counts, when a statement last had them locked
}

// leader is the first request of a group with a key. The others with the key get its answer.
type leader struct {
	index   int
	repeats []int
	lost    bool // its key was taken: the repeats are answered as it is
	own     uuid.UUID
}

func newUpdateGroup(group []request) *updateGroup {
	g := &updateGroup{
		group: group, answers: make([]coalesce.Answer[reply], len(group)),
		leaders: make(map[string]*leader), values: make(map[string]int64),
	}
	adds := make(map[string]*part)
	for i, r := range group {
		switch {
		case r.update == nil:
			g.addTo(adds, i)
		case r.update.Key.Value == "":
			g.parts = append(g.parts, &part{update: r.update, members: []int{i}, steps: r.update.steps})
		default:
			lane := r.update.locks[len(r.update.locks)-1]
			if l := g.leaders[lane]; l != nil {
				l.repeats = append(l.repeats, i)
				continue
			}
			g.leaders[lane] = &leader{index: i}
			g.parts = append(g.parts, &part{update: r.update, members: []int{i}, steps: r.update.steps})
		}
	}
	return g
}

// addTo adds an add to the part of its count, or makes one where the sum would leave int64.
func (g *updateGroup) addTo(adds map[string]*part, i int) {
	a := g.group[i].add
	if p := adds[a.id]; p != nil && p.steps[0].add(a.delta) {
		p.members = append(p.members, i)
		return
	}
	adds[a.id] = g.single(i)
	g.parts = append(g.parts, adds[a.id])
}

// single returns the part of one add.
func (g *updateGroup) single(i int) *part {
	a := g.group[i].add
	return &part{
		members: []int{i},
		steps:   []step{{id: a.id, delta: a.delta, low: min(a.delta, 0), high: max(a.delta, 0)}},
	}
}

// split returns the parts with each add by itself.
func (g *updateGroup) split(parts []*part) []*part {
	var all []*part
	for _, p := range parts {
		if p.update != nil || len(p.members) == 1 {
			all = append(all, p)
			continue
		}
		for _, i := range p.members {
			all = append(all, g.single(i))
		}
	}
	return all
}

// refuseOverflow refuses a part that does not fit to the values that its counts had when a statement last had them
// locked, which is when the refusal takes effect. One with a key is refused by a statement, which stores that.
func (g *updateGroup) refuseOverflow(p *part) bool {
	if p.keyed() {
		return false
	}
	st := planAlone(p)
	for _, id := range st.ids {
		v, known := g.values[id]
		if !known {
			return false
		}
		st.values = append(st.values, nullInt{v, true})
	}
	index := st.overflow(p)
	if index < 0 {
		return false
	}
	g.answers[p.members[0]].Err = p.refused(index, counting.ErrOverflow)
	return true
}

// answer answers the callers of a statement's parts. It returns the parts that may fit alone.
func (g *updateGroup) answer(st *statement) (unfits []*part) {
	outcomes := st.outcomes()
	for i, v := range st.values {
		if v.valid {
			g.values[st.ids[i]] = v.value
		}
	}
	for n, p := range st.parts {
		switch o := outcomes[n]; o.fate {
		case applied:
			g.applied(p, o.starts)
			for j, s := range p.steps {
				g.values[s.id] = o.starts[j] + s.delta
			}
		case refused:
			for _, i := range p.members {
				g.answers[i].Err = o.err
			}
		case isLocked:
			g.lockOut(p, p.lock(o.at))
		case unfit:
			unfits = append(unfits, p)
		case lost:
			g.losers = append(g.losers, p)
			l := g.leaders[p.lane()]
			l.lost, l.own = true, st.id
		}
	}
	return unfits
}

// applied answers the callers of a part that was applied.
func (g *updateGroup) applied(p *part, starts []int64) {
	if p.update != nil {
		g.answers[p.members[0]].Value.values = p.update.values(starts)
		return
	}
	value := starts[0]
	for _, i := range p.members {
		value += g.group[i].delta
		g.answers[i].Value.value = value
	}
}

// lockOut marks a part as not applied because of a lock, to be tried again.
func (g *updateGroup) lockOut(p *part, at int) {
	for _, i := range p.members {
		g.answers[i] = coalesce.Answer[reply]{Locked: true, At: at}
	}
}

func (g *updateGroup) fail(parts []*part, err error) {
	for _, p := range parts {
		for _, i := range p.members {
			g.answers[i] = coalesce.Answer[reply]{Err: err}
		}
	}
}

// lane returns the lane of a part's key.
func (p *part) lane() string { return p.update.locks[len(p.update.locks)-1] }

// lock returns the place of a count among what a part locks.
func (p *part) lock(id string) int {
	if p.update == nil {
		return 0
	}
	return slices.Index(p.update.locks, id)
}
