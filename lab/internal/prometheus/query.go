package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Labels are those of a series, its name as __name__ included.
type Labels map[string]string

// Sample is a series at one moment.
type Sample struct {
	Labels Labels
	Value  float64
}

// Point is a value of a series.
type Point struct {
	Time  time.Time
	Value float64
}

// Series is a series over time.
type Series struct {
	Labels Labels
	Points []Point
}

// Alert is what is known of an alerting rule.
type Alert struct {
	Name string `json:"name"`
	// State is inactive, pending or firing.
	State string `json:"state"`
	// Health is ok, or err with LastError; unknown until it was evaluated.
	Health    string `json:"health"`
	LastError string `json:"lastError"`
	// Alerts are those of its series that are pending or firing.
	Alerts []struct {
		State  string `json:"state"`
		Labels Labels `json:"labels"`
	} `json:"alerts"`
}

// pair is how the API writes a point: seconds, and the value as text.
type pair [2]any

func (p pair) point() (Point, error) {
	seconds, isNumber := p[0].(float64)
	text, isText := p[1].(string)
	if !isNumber || !isText {
		return Point{}, fmt.Errorf("%v is no point", [2]any(p))
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return Point{}, fmt.Errorf("a value of prometheus: %w", err)
	}
	return Point{Time: time.UnixMilli(int64(seconds * 1000)), Value: value}, nil
}

// Query evaluates an expression, whose result is a vector or a scalar, at one moment.
func (s *Server) Query(ctx context.Context, expr string, at time.Time) ([]Sample, error) {
	var data struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	}
	if err := s.api(ctx, "query", url.Values{"query": {expr}, "time": {seconds(at)}}, &data); err != nil {
		return nil, err
	}
	if data.ResultType != "vector" {
		return nil, fmt.Errorf("%s is a %s, no vector", expr, data.ResultType)
	}
	var vector []struct {
		Metric Labels `json:"metric"`
		Value  pair   `json:"value"`
	}
	if err := json.Unmarshal(data.Result, &vector); err != nil {
		return nil, fmt.Errorf("the answer to %s: %w", expr, err)
	}
	samples := make([]Sample, 0, len(vector))
	for _, v := range vector {
		point, err := v.Value.point()
		if err != nil {
			return nil, err
		}
		samples = append(samples, Sample{Labels: v.Metric, Value: point.Value})
	}
	return samples, nil
}

// QueryRange evaluates an expression every step, from one moment to another.
func (s *Server) QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Series, error) {
	var data struct {
		Result []struct {
			Metric Labels `json:"metric"`
			Values []pair `json:"values"`
		} `json:"result"`
	}
	values := url.Values{
		"query": {expr}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	}
	if err := s.api(ctx, "query_range", values, &data); err != nil {
		return nil, err
	}
	list := make([]Series, 0, len(data.Result))
	for _, r := range data.Result {
		series := Series{Labels: r.Metric}
		for _, v := range r.Values {
			point, err := v.point()
			if err != nil {
				return nil, err
			}
			series.Points = append(series.Points, point)
		}
		list = append(list, series)
	}
	return list, nil
}

// Series lists the series that a selector finds, in the last hour.
func (s *Server) Series(ctx context.Context, selector string) ([]Labels, error) {
	var list []Labels
	values := url.Values{"match[]": {selector}, "start": {seconds(time.Now().Add(-time.Hour))}}
	err := s.api(ctx, "series", values, &list)
	return list, err
}

// LabelValues lists the values of a label of the series that a selector finds.
func (s *Server) LabelValues(ctx context.Context, label, selector string) ([]string, error) {
	var list []string
	err := s.api(ctx, "label/"+url.PathEscape(label)+"/values", url.Values{"match[]": {selector}}, &list)
	return list, err
}

// Alerts lists the alerting rules.
func (s *Server) Alerts(ctx context.Context) ([]Alert, error) {
	var data struct {
		Groups []struct {
			Rules []Alert `json:"rules"`
		} `json:"groups"`
	}
	if err := s.api(ctx, "rules", url.Values{"type": {"alert"}}, &data); err != nil {
		return nil, err
	}
	var list []Alert
	for _, group := range data.Groups {
		list = append(list, group.Rules...)
	}
	return list, nil
}

func seconds(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// api calls a part of the API and decodes its data.
func (s *Server) api(ctx context.Context, part string, values url.Values, data any) error {
	var answer struct {
		Status string          `json:"status"`
		Error  string          `json:"error"`
		Data   json.RawMessage `json:"data"`
	}
	if err := s.get(ctx, "/api/v1/"+part+"?"+values.Encode(), &answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s of %s: %s", part, values, answer.Error)
	}
	if err := json.Unmarshal(answer.Data, data); err != nil {
		return fmt.Errorf("%s of %s: %w", part, values, err)
	}
	return nil
}

// get reads a page; with an answer to decode, one that is JSON, whatever its status.
func (s *Server) get(ctx context.Context, path string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask prometheus: %w", err)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask prometheus: %w", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("ask prometheus: %w", err)
	}
	if answer == nil {
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("prometheus answered %s: %s", resp.Status, body)
		}
		return nil
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("prometheus answered %s: %s: %w", resp.Status, body, err)
	}
	return nil
}
