{{/* The connections that all enabled services open at most. */}}
{{- define "rowlock.connections" -}}
{{- $sum := 0 -}}
{{- range $name, $service := .Subcharts -}}
{{- $sum = add $sum (include "service.connections" $service) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Whether any enabled service asks for a token: anything or nothing. */}}
{{- define "rowlock.auth" -}}
{{- range .Subcharts }}{{ include "service.auth" . }}{{ end -}}
{{- end -}}

{{/* The rules are about all releases; shipped with a release they are narrowed to it, or each of several would fire for all. */}}
{{- define "rowlock.ofRelease" -}}
and on (namespace, app_kubernetes_io_instance) label_replace(label_replace(vector(1),
  "namespace", "{{ .Release.Namespace }}", "", ""), "app_kubernetes_io_instance", "{{ .Release.Name }}", "", "")
{{- end -}}
