package otlp

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
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
	Begin             time.Time
}

// Link is a link to another span.
type Link struct {
	Trace, ID  string
	Attributes map[string]string
}

// Spans returns the spans kept so far.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var spans []Span
	for _, raw := range r.exports {
		var export coltracepb.ExportTraceServiceRequest
		if err := proto.Unmarshal(raw, &export); err != nil {
			panic(err) // countSpans has read it
		}
		for _, resource := range export.GetResourceSpans() {
			of := attributes(resource.GetResource().GetAttributes())
			for _, scope := range resource.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					spans = append(spans, span(s, of))
				}
			}
		}
	}
	return spans
}

// Trace returns the spans of one trace kept so far.
func (r *Receiver) Trace(id string) []Span {
	var found []Span
	for _, s := range r.Spans() {
		if s.Trace == id {
			found = append(found, s)
		}
	}
	return found
}

func span(s *tracepb.Span, resource map[string]string) Span {
	converted := Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()), Name: s.GetName(), State: s.GetTraceState(),
		Kind:       strings.ToLower(strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_")),
		Failed:     s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
		Message:    s.GetStatus().GetMessage(),
		Attributes: attributes(s.GetAttributes()), Resource: resource,
		Begin: time.Unix(0, int64(s.GetStartTimeUnixNano())),
	}
	for _, l := range s.GetLinks() {
		converted.Links = append(converted.Links, Link{
			Trace: hex.EncodeToString(l.GetTraceId()), ID: hex.EncodeToString(l.GetSpanId()), Attributes: attributes(l.GetAttributes()),
		})
	}
	for _, e := range s.GetEvents() {
		converted.Events = append(converted.Events, e.GetName())
	}
	return converted
}

// attributes returns the values as text; those of strings are the strings.
func attributes(list []*commonpb.KeyValue) map[string]string {
	all := make(map[string]string, len(list))
	for _, a := range list {
		if text, is := a.GetValue().GetValue().(*commonpb.AnyValue_StringValue); is {
			all[a.GetKey()] = text.StringValue
			continue
		}
		_, value, _ := strings.Cut(strings.TrimSpace(fmt.Sprint(a.GetValue())), ":")
		all[a.GetKey()] = value
	}
	return all
}
