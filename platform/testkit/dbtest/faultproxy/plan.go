package faultproxy

import (
	"slices"
	"strings"
	"sync/atomic"
)

// When is the moment in a statement's life at which a connection is cut.
type When uint8

const (
	// AfterStatement discards the reply to a statement that the server has finished; outside a
	// transaction it is committed. The empty query of a ping and COMMIT do not count as statements,
	// and other transaction control (BEGIN, ROLLBACK, SAVEPOINT, SET) only if Matching names it.
	AfterStatement When = iota + 1
	// AfterCommit discards the reply to a COMMIT that the server has finished.
	AfterCommit
	// BeforeStatement discards the request: the server never gets the statement. The client
	// cannot know that.
	BeforeStatement
	// BeforeCommit discards a COMMIT before the server gets it; the server then rolls back.
	BeforeCommit
	// DuringStatement ends the client's side as soon as the server has the statement; the server finishes it.
	DuringStatement
)

// How is the way in which the client's connection ends.
type How uint8

const (
	// FIN closes the connection in order: the client reads the end of the stream.
	FIN How = iota + 1
	// RST resets the connection: the client gets "connection reset by peer".
	RST
	// Hang keeps the connection open and sends nothing more. The server's side is closed.
	Hang
)

// Option modifies a plan of Cut or CutEvery.
type Option func(*plan)

// Matching cuts only statements that contain one of the texts, ignoring case. It does not affect COMMIT.
func Matching(texts ...string) Option {
	return func(p *plan) {
		for _, text := range texts {
			p.texts = append(p.texts, strings.ToLower(text))
		}
	}
}

// Times cuts the next n matches instead of one.
func Times(n int) Option {
	return func(p *plan) { p.left = n }
}

// Counted adds 1 to n with each cut.
func Counted(n *atomic.Int64) Option {
	return func(p *plan) { p.cuts = n }
}

// plan describes which statements to cut.
type plan struct {
	when  When
	how   How
	texts []string // lower case; empty: every statement matches
	// left is the number of remaining cuts; a negative number means no limit. Each every-th match
	// is cut; seen counts the matches.
	left, every, seen int
	cuts              *atomic.Int64 // nil: not counted
}

// Cut cuts the next connection that reaches the point when. Plans are independent of each other.
func (p *Proxy) Cut(when When, how How, options ...Option) {
	p.order(&plan{when: when, how: how, left: 1, every: 1}, options)
}

// CutEvery cuts each n-th match until StopCutting.
func (p *Proxy) CutEvery(n int, when When, how How, options ...Option) {
	p.order(&plan{when: when, how: how, left: -1, every: max(n, 1)}, options)
}

// StopCutting removes all plans.
func (p *Proxy) StopCutting() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans = nil
}

func (p *Proxy) order(order *plan, options []Option) {
	for _, option := range options {
		option(order)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans = append(p.plans, order)
}

// match returns the plan for a statement that is about to be sent to the server, and counts the
// cut; nil if there is none.
func (p *Proxy) match(statement string) (cut *plan) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if len(p.plans) == 0 {
		return nil
	}

	kind, lower := classify(statement), strings.ToLower(statement)
	for _, one := range p.plans {
		if one.left == 0 || !one.fits(kind, lower) {
			continue
		}
		one.seen++
		if cut != nil || one.seen%one.every != 0 {
			continue
		}

		cut = one
		one.left--
		p.cuts++
		if one.cuts != nil {
			one.cuts.Add(1)
		}
	}

	return cut
}

func (p *plan) fits(kind kind, lower string) bool {
	switch p.when {
	case AfterCommit, BeforeCommit:
		return kind == commit
	case AfterStatement, BeforeStatement, DuringStatement:
		named := kind == other && len(p.texts) > 0
		return (kind == statement || named) && p.matches(lower)
	default:
		return false
	}
}

func (p *plan) matches(lower string) bool {
	contains := func(text string) bool { return strings.Contains(lower, text) }
	return len(p.texts) == 0 || slices.ContainsFunc(p.texts, contains)
}

// before reports whether the request is lost, rather than the reply.
func (p *plan) before() bool { return p.when == BeforeStatement || p.when == BeforeCommit }

// kind is the kind of a query string.
type kind uint8

const (
	other kind = iota
	statement
	commit
)

// classify returns the kind of a query. Several statements that end in COMMIT count as a COMMIT.
func classify(query string) kind {
	words := strings.FieldsFunc(strings.ToUpper(query), func(r rune) bool {
		return r == ';' || r == ' ' || r == '\n' || r == '\t' || r == '\r'
	})
	if len(words) == 0 {
		return other
	}
	if words[len(words)-1] == "COMMIT" || words[0] == "COMMIT" {
		return commit
	}
	switch words[0] {
	case "BEGIN", "START", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "SET", "RESET", "DISCARD":
		return other
	default:
		return statement
	}
}
