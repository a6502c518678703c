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

{{/* The image of helm test. Its digest counts while no tag is named. */}}
{{- define "rowlock.checkImage" -}}
{{- $tag := .Values.test.image.tag | default .Values.global.image.tag -}}
{{- with .Values.test.image.registry | default .Values.global.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- .Values.test.image.repository }}:{{ $tag | default .Chart.AppVersion -}}
{{- with .Values.test.image.digest }}{{ if not $tag }}@{{ . }}{{ end }}{{ end -}}
{{- end -}}
