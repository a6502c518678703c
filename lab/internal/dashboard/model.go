package dashboard

import "strings"

// Dashboard is one page of Grafana.
type Dashboard struct {
	// Name is the file's, without ".json". The uid, by which links find it, is "rowlock-" and the name.
	Name string
	// Title stands above it, Description below that.
	Title, Description string
	// Selector replaces $sel in all expressions.
	Selector string
	// Variables are those that the reader can turn, the data source apart, which every dashboard has.
	Variables []Variable
	// Rows are its parts, from above.
	Rows []Row
}

// UID is the dashboard's name in links. It never changes.
func (d *Dashboard) UID() string { return "rowlock-" + d.Name }

// Expr is an expression of a panel with the dashboard's matchers in it.
func (d *Dashboard) Expr(expr string) string { return strings.ReplaceAll(expr, "$sel", d.Selector) }

// Variable is a choice of label values, any number of them.
type Variable struct {
	// Name and Label are what expressions and people call it.
	Name, Label string
	// Query is Grafana's: label_values(metric, label).
	Query string
}

// Row is a titled part of a dashboard.
type Row struct {
	Title  string
	Panels []Panel
}

// The kinds of panels.
const (
	KindStat       = "stat"
	KindTimeseries = "timeseries"
)

// The units that panels have, by Grafana's names.
const (
	UnitRate    = "reqps"       // requests per second
	UnitOps     = "ops"         // anything else per second
	UnitSeconds = "s"           // seconds
	UnitShare   = "percentunit" // 0 to 1
	UnitShort   = "short"       // a number
	UnitBytes   = "bytes"       // bytes, in powers of 1024
)

// Panel is one picture.
type Panel struct {
	// Title says what is shown, Description how to read it and what to do about it.
	Title, Description string
	// Kind is [KindStat] or [KindTimeseries].
	Kind string
	// Unit is one of the units above.
	Unit string
	// Width is in Grafana's 24 columns; the height goes by the kind.
	Width int
	// Queries are what is drawn.
	Queries []Query
	// Warn and Bad are the values from which it is yellow and red; 0 for none.
	Warn, Bad float64
	// Stack puts the series on top of each other, where only their sum means something.
	Stack bool
	// ByService says that the series are services: a click leads to the dashboard of one.
	ByService bool
}

// Query is one expression.
type Query struct {
	Expr string
	// Legend names its series, with {{label}} for a label's value.
	Legend string
}

// one is the single query that most panels have.
func one(expr, legend string) []Query { return []Query{{Expr: expr, Legend: legend}} }
