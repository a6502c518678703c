package collector

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Span is a received span.
type Span struct {
	Trace, ID, Parent string // in hex; Parent is empty for a root
	Name, Kind, State string // State is the W3C tracestate
	Failed            bool
	Message           string // of the status
	Attributes        map[string]string
	Resource          map[string]string
	Events            []string
	Links             []Link
	Begin, End        time.Time
}

// Link is a link to another span.
type Link struct {
	Trace, ID  string
	Attributes map[string]string
}

func spansOf(all []*tracepb.ResourceSpans) []Span {
	var spans []Span
	for _, resource := range all {
		of := attributes(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				span := Span{
					Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
					Parent: hex.EncodeToString(s.GetParentSpanId()), Name: s.GetName(), State: s.GetTraceState(),
					Kind:       strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_")),
					Failed:     s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
					Message:    s.GetStatus().GetMessage(),
					Attributes: attributes(s.GetAttributes()), Resource: of,
					Begin: time.Unix(0, int64(s.GetStartTimeUnixNano())),
					End:   time.Unix(0, int64(s.GetEndTimeUnixNano())),
				}
				for _, l := range s.GetLinks() {
					span.Links = append(span.Links, Link{
						Trace: hex.EncodeToString(l.GetTraceId()), ID: hex.EncodeToString(l.GetSpanId()), Attributes: attributes(l.GetAttributes()),
					})
				}
				for _, e := range s.GetEvents() {
					span.Events = append(span.Events, fmt.Sprint(e.GetName(), attributes(e.GetAttributes())))
				}
				spans = append(spans, span)
			}
		}
	}
	return spans
}

func attributes(list []*commonpb.KeyValue) map[string]string {
	all := make(map[string]string, len(list))
	for _, a := range list {
		v := a.GetValue()
		switch v.GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			all[a.GetKey()] = v.GetStringValue()
		case *commonpb.AnyValue_IntValue:
			all[a.GetKey()] = strconv.FormatInt(v.GetIntValue(), 10)
		case *commonpb.AnyValue_BoolValue:
			all[a.GetKey()] = strconv.FormatBool(v.GetBoolValue())
		case *commonpb.AnyValue_DoubleValue:
			all[a.GetKey()] = fmt.Sprint(v.GetDoubleValue())
		default:
			all[a.GetKey()] = v.String()
		}
	}
	return all
}

// Tree draws spans as an indented tree, children in the order in which they began,
// with a sign before those that failed. Spans that open connections are left out: a
// pool opens them when it likes. An orphan, whose parent is neither among the spans
// nor remote, is drawn under "?".
func Tree(spans []Span, remote string) string {
	var text strings.Builder
	known := map[string]bool{"": true, remote: true}
	for _, s := range spans {
		known[s.ID] = true
	}
	draw(&text, spans, func(s Span) bool { return s.Parent == "" || s.Parent == remote }, 0)
	for _, s := range spans {
		if !known[s.Parent] {
			fmt.Fprintf(&text, "? %s\n", s.Name)
		}
	}
	return text.String()
}

func draw(text *strings.Builder, spans []Span, wanted func(Span) bool, depth int) {
	var level []Span
	for _, s := range spans {
		if wanted(s) && s.Name != "connect" {
			level = append(level, s)
		}
	}
	slices.SortFunc(level, func(a, b Span) int { return a.Begin.Compare(b.Begin) })
	for _, s := range level {
		sign := ""
		if s.Failed {
			sign = " !"
		}
		fmt.Fprintf(text, "%s%s%s\n", strings.Repeat("  ", depth), s.Name, sign)
		draw(text, spans, func(below Span) bool { return below.Parent == s.ID }, depth+1)
	}
}
