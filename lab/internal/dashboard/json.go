package dashboard

import (
	"encoding/json"
	"fmt"
	"strings"
)

const (
	// schemaVersion is that of Grafana 11; newer ones bring it up to date when they load it.
	schemaVersion = 39
	columns       = 24

	rowHeight        = 1
	statHeight       = 4
	timeseriesHeight = 8
)

type object = map[string]any

// JSON returns the dashboard as Grafana imports it.
func (d *Dashboard) JSON() ([]byte, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d.document()); err != nil {
		return nil, fmt.Errorf("dashboard %s: %w", d.Name, err)
	}
	return []byte(text.String()), nil
}

//nolint:goconst // the words of Grafana's JSON, each where Grafana wants it
func (d *Dashboard) document() object {
	return object{
		"uid": d.UID(), "title": d.Title, "description": d.Description, "tags": []string{"rowlock"},
		"schemaVersion": schemaVersion, "version": 1, "editable": true, "graphTooltip": 1,
		"timezone": "", "refresh": "30s", "time": object{"from": "now-1h", "to": "now"},
		"links": []object{
			{
				"title": "Rowlock", "type": "dashboards", "tags": []string{"rowlock"}, "asDropdown": true,
				"includeVars": true, "keepTime": true, "icon": "external link",
			},
			{
				"title": "Runbook", "type": "link", "icon": "doc", "targetBlank": true,
				"url": "https://github.com/rowlock/rowlock/blob/main/docs/runbook.md",
			},
		},
		"templating":  object{"list": d.variables()},
		"annotations": object{"list": []object{alerts()}},
		"panels":      d.panels(),
	}
}

// source refers to the data source that the reader has chosen.
func source() object { return object{"type": "prometheus", "uid": "${datasource}"} }

//nolint:goconst // the words of Grafana's JSON, each where Grafana wants it
func (d *Dashboard) variables() []object {
	list := make([]object, 0, 1+len(d.Variables))
	list = append(list, object{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"})
	for _, v := range d.Variables {
		list = append(list, object{
			"name": v.Name, "label": v.Label, "type": "query", "datasource": source(),
			"query": object{"qryType": 1, "query": v.Query, "refId": "Variable"}, "definition": v.Query,
			"refresh": 2, "sort": 1, "multi": true, "includeAll": true,
			"current": object{"text": []string{"All"}, "value": []string{"$__all"}},
		})
	}
	return list
}

// AlertsExpr finds the alerts of the chosen namespaces and releases that fire; every dashboard marks their time.
const AlertsExpr = `ALERTS{alertname=~"Rowlock.+",alertstate="firing",` + ofRelease + `}`

func alerts() object {
	return object{
		"name": "Alerts", "enable": true, "iconColor": "red", "datasource": source(), "expr": AlertsExpr,
		"step": "30s", "titleFormat": "{{alertname}}", "textFormat": "{{app_kubernetes_io_name}} {{pod}}",
	}
}

// panels lays the panels out from left to right, row by row: six figures beside each other, or three panels with lines,
// or four where a row has four. A heatmap is as wide as two of three.
func (d *Dashboard) panels() []object {
	var list []object
	top := 0
	for _, row := range d.Rows {
		list = append(list, object{
			"id": len(list) + 1, "type": "row", "title": row.Title, "collapsed": false, "panels": []object{},
			"gridPos": position(0, top, columns, rowHeight),
		})
		top += rowHeight
		left, width, height := 0, columns/3, timeseriesHeight
		switch {
		case row.Panels[0].Kind == KindStat:
			width, height = columns/6, statHeight
		case len(row.Panels) == 4:
			width = columns / 4
		}
		for _, p := range row.Panels {
			wide := width
			if p.Kind == KindHeatmap {
				wide = 2 * width
			}
			if left+wide > columns {
				left, top = 0, top+height
			}
			list = append(list, d.panel(len(list)+1, p, position(left, top, wide, height)))
			left += wide
		}
		top += height
	}
	return list
}

func position(left, top, width, height int) object {
	return object{"x": left, "y": top, "w": width, "h": height}
}

//nolint:goconst // the words of Grafana's JSON, each where Grafana wants it
func (d *Dashboard) panel(id int, p Panel, at object) object {
	targets := make([]object, 0, len(p.Queries))
	for i, q := range p.Queries {
		target := object{
			"refId": string(rune('A' + i)), "datasource": source(), "expr": d.Expr(q.Expr), "legendFormat": q.Legend,
			"editorMode": "code", "range": p.Kind != KindStat, "instant": p.Kind == KindStat,
			"exemplar": p.Exemplars,
		}
		if p.Kind == KindHeatmap {
			target["format"] = "heatmap"
		}
		targets = append(targets, target)
	}
	panel := object{
		"id": id, "type": p.Kind, "title": p.Title, "description": p.Description, "gridPos": at,
		"datasource": source(), "targets": targets,
	}
	defaults := object{"unit": p.Unit, "min": 0, "thresholds": p.thresholds()}
	if p.ByService {
		defaults["links"] = []object{{
			"title": "Open ${__field.labels.app_kubernetes_io_name}",
			"url": "/d/rowlock-${__field.labels.app_kubernetes_io_name}" +
				"?${__url_time_range}&${datasource:queryparam}&${namespace:queryparam}&${release:queryparam}",
		}}
	}
	switch p.Kind {
	case KindStat:
		defaults["color"] = object{"mode": "thresholds"}
		panel["options"] = object{
			"colorMode": "value", "graphMode": "none", "justifyMode": "auto", "textMode": "auto", "orientation": "auto",
			"reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		}
	case KindHeatmap:
		defaults = object{}
		panel["options"] = p.cells()
	default:
		defaults["color"] = object{"mode": "palette-classic"}
		defaults["custom"] = p.lines()
		panel["options"] = object{
			"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	}
	panel["fieldConfig"] = object{"defaults": defaults, "overrides": []object{}}
	return panel
}

// cells returns the options of a heatmap whose rows are the buckets: a cell's colour is how many requests per second
// fell into the bucket.
//
//nolint:goconst // the words of Grafana's JSON, each where Grafana wants it
func (p Panel) cells() object {
	return object{
		"calculate": false, "cellGap": 1, "showValue": "never", "rowsFrame": object{"layout": "auto"},
		"cellValues": object{"unit": UnitRate}, "filterValues": object{"le": 1e-9},
		"yAxis":   object{"unit": p.Unit, "axisPlacement": "left", "reverse": false},
		"legend":  object{"show": true},
		"tooltip": object{"mode": "single", "yHistogram": true},
		"color": object{
			"mode": "scheme", "scheme": "Oranges", "scale": "exponential", "exponent": 0.5, "steps": 64,
			"fill": "dark-orange", "reverse": false,
		},
		"exemplars": object{"color": "rgba(255,0,255,0.7)"},
	}
}

// thresholds returns the steps from green over yellow to red. The first one has no value.
func (p Panel) thresholds() object {
	steps := []object{{"color": "green", "value": nil}}
	if p.Warn != 0 {
		steps = append(steps, object{"color": "yellow", "value": p.Warn})
	}
	if p.Bad != 0 {
		steps = append(steps, object{"color": "red", "value": p.Bad})
	}
	return object{"mode": "absolute", "steps": steps}
}

func (p Panel) lines() object {
	lines := object{
		"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false,
		"thresholdsStyle": object{"mode": "off"}, "stacking": object{"mode": "none", "group": "A"},
	}
	if p.Warn != 0 || p.Bad != 0 {
		lines["thresholdsStyle"] = object{"mode": "dashed"}
	}
	if p.Stack {
		lines["fillOpacity"], lines["stacking"] = 40, object{"mode": "normal", "group": "A"}
	}
	return lines
}
