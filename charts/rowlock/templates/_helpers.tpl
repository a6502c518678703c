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
