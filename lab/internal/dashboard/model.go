package dashboard

import "strings"

// Dashboard describes a dashboard of Grafana.
type Dashboard struct {
	// Name is the file's, without ".json". The uid, by which links find it, is "rowlock-" and the name.
	Name string
	// Title and Description stand at its top.
	Title, Description string
	// Selector replaces $sel in all expressions.
	Selector string
	// Variables are the choices of the reader, but for the data source, which every dashboard has.
	Variables []Variable
	// Rows are its parts from top to bottom.
	Rows []Row
}

// UID returns the dashboard's name in links, which must not change.
func (d *Dashboard) UID() string { return "rowlock-" + d.Name }

// Expr returns a panel's expression with the dashboard's matchers for $sel.
func (d *Dashboard) Expr(expr string) string { return strings.ReplaceAll(expr, "$sel", d.Selector) }

// Variable lets the reader choose label values.
type Variable struct {
	// Name is its name in expressions, Label the one on the page.
	Name, Label string
	// Query is Grafana's: label_values(metric, label).
	Query string
}

// Row holds panels under a title.
type Row struct {
	Title  string
	Panels []Panel
}

// The kinds of panels.
const (
	KindStat       = "stat"
	KindTimeseries = "timeseries"
	KindHeatmap    = "heatmap"
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

// Panel shows the results of queries.
type Panel struct {
	// Title says what is shown, Description how to read it and what to do about it.
	Title, Description string
	// Kind is [KindStat], [KindTimeseries] or [KindHeatmap].
	Kind string
	// Unit is one of the units above.
	Unit string
	// Queries find the series.
	Queries []Query
	// Warn and Bad are the values from which it is yellow and red; 0 for none.
	Warn, Bad float64
	// Stack puts the series on top of each other, where only their sum has a meaning.
	Stack bool
	// Exemplars shows a trace of single requests beside the lines, where Prometheus stores exemplars.
	Exemplars bool
	// ByService says that the series are services: a click leads to the dashboard of one.
	ByService bool
}

// Query is an expression and how its series are named.
type Query struct {
	Expr string
	// Legend names its series, with {{label}} for a label's value.
	Legend string
}

func query(expr, legend string) Query { return Query{Expr: expr, Legend: legend} }

// series returns a panel with lines over time. The title says what is shown, the description how to read it.
func series(title, unit, description string, queries ...Query) Panel {
	return Panel{Title: title, Kind: KindTimeseries, Unit: unit, Description: description, Queries: queries}
}

// stat returns a panel with one figure.
func stat(title, unit, description string, queries ...Query) Panel {
	return Panel{Title: title, Kind: KindStat, Unit: unit, Description: description, Queries: queries}
}

// heatmap returns a panel that shows how the observations of a histogram spread over its classic buckets, which every
// Prometheus has.
func heatmap(title, unit, description, histogram string) Panel {
	perBucket := query(rate(histogram+"_bucket", "le"), "{{le}}")
	return Panel{Title: title, Kind: KindHeatmap, Unit: unit, Description: description, Queries: []Query{perBucket}}
}

// limits colours the panel yellow from warn and red from bad on; 0 for none.
func (p Panel) limits(warn, bad float64) Panel {
	p.Warn, p.Bad = warn, bad
	return p
}

// stacked puts the series on top of each other, where only their sum has a meaning.
func (p Panel) stacked() Panel {
	p.Stack = true
	return p
}

// exemplars shows a trace of single requests beside the lines.
func (p Panel) exemplars() Panel {
	p.Exemplars = true
	return p
}

// byService says that the series are services: a click leads to the dashboard of one.
func (p Panel) byService() Panel {
	p.ByService = true
	return p
}
