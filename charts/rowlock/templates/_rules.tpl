{{/*
The groups of rules/ as prometheusRule wants them: for its objective, without the alerts that are disabled, with what overrides say, and narrowed
to the release. The rules are about all releases; shipped with a release as they are, each of several would fire for all. The error budget stands in
rules/ as a number, 0.001, so that the file can be loaded as it is.
*/}}
{{- define "rowlock.rules" -}}
{{- $values := .Values.prometheusRule -}}
{{- $disabled := $values.disabled | default dict -}}
{{- $overrides := $values.overrides | default dict -}}
{{- $budget := subf 1.0 $values.objective -}}
{{- $alerts := dict -}}
{{- $groups := list -}}
{{- range $path, $_ := .Files.Glob "rules/*.yaml" -}}
{{- range $group := ($.Files.Get $path | fromYaml).groups | required (printf "%s has no groups, or is no YAML" $path) -}}
{{- $rules := list -}}
{{- range $rule := .rules -}}
{{- with .alert -}}
{{- $_ := set $alerts . true -}}
{{- $_ = set $rule "expr" (replace " * 0.001" (printf " * %v" $budget) $rule.expr) -}}
{{- $rule = mergeOverwrite $rule (get $overrides . | default dict | deepCopy) -}}
{{- $_ = set $rule "labels" (merge (dict) (dig . "labels" dict $overrides) ($values.additionalRuleLabels | default dict) $rule.labels) -}}
{{- if not (dig . "annotations" "runbook_url" "" $overrides) -}}
{{- $page := last (splitList "#" $rule.annotations.runbook_url) -}}
{{- $_ = set $rule.annotations "runbook_url" (printf "%s#%s" $values.runbookUrl $page) -}}
{{- end -}}
{{- end -}}
{{- if not (get $disabled (.alert | default "")) -}}
{{- $_ := set $rule "expr" (printf "(%s)\n%s" $rule.expr (include "rowlock.ofRelease" $)) -}}
{{- $rules = append $rules $rule -}}
{{- end -}}
{{- end -}}
{{- with $rules -}}
{{- $groups = append $groups (set $group "rules" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $section, $named := dict "disabled" $disabled "overrides" $overrides -}}
{{- range $name, $_ := $named -}}
{{- if not (hasKey $alerts $name) -}}
{{- fail (printf "prometheusRule.%s.%s: no alert of rules/ has this name; those are %s" $section $name (keys $alerts | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $groups -}}
{{- end -}}

{{/* What narrows an expression to the release. */}}
{{- define "rowlock.ofRelease" -}}
and on (namespace, app_kubernetes_io_instance) label_replace(label_replace(vector(1),
  "namespace", "{{ .Release.Namespace }}", "", ""), "app_kubernetes_io_instance", "{{ .Release.Name }}", "", "")
{{- end -}}
