{{/*
Metadata of an object of any of the charts, with what commonLabels and commonAnnotations add. Takes a dict of root and name and, where they
apply, component, and labels and annotations of its own.
*/}}
{{- define "service.metadata" -}}
{{- $global := .root.Values.global -}}
name: {{ .name | quote }}
namespace: {{ .root.Release.Namespace | quote }}
labels:
  {{- $own := include "service.labels" .root | fromYaml -}}
  {{- with .component }}{{ $_ := set $own "app.kubernetes.io/component" . }}{{ end -}}
  {{- include "service.merge" (list $global.commonLabels .root.Values.commonLabels .labels $own) | nindent 2 }}
{{- with include "service.merge" (list $global.commonAnnotations .root.Values.commonAnnotations .annotations) }}
annotations:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Metadata of a pod of a workload. Takes a dict of root and component and, where they apply, further labels and annotations. */}}
{{- define "service.podMetadata" -}}
{{- $global := .root.Values.global -}}
{{- with .root -}}
labels:
  {{- $own := include "service.selector" . | fromYaml | merge (dict
        "app.kubernetes.io/component" $.component
        "app.kubernetes.io/version" (include "service.version" .)
        "app.kubernetes.io/part-of" "rowlock") -}}
  {{- include "service.merge" (list $global.commonLabels .Values.commonLabels $global.podLabels .Values.podLabels $.labels $own) | nindent 2 }}
{{- with include "service.merge" (list $global.podAnnotations .Values.podAnnotations $.annotations) }}
annotations:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Labels that the chart sets itself: no value may have one of their keys (values.schema.json). */}}
{{- define "service.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "service.selector" . }}
app.kubernetes.io/version: {{ include "service.version" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: rowlock
{{- end -}}

{{- define "service.selector" -}}
app.kubernetes.io/name: {{ include "service.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Several maps as one, as YAML, or nothing. Takes a list of maps; the last one that has a key wins. */}}
{{- define "service.merge" -}}
{{- $all := dict -}}
{{- range . -}}
{{- range $key, $value := . -}}
{{- $_ := set $all $key $value -}}
{{- end -}}
{{- end -}}
{{- with $all }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/*
A value that may also stand under global, as YAML with its key, or nothing where it is empty. Takes a dict of own (the section that has it),
global and key. A map has the keys of both, its own over those of global; of anything else its own counts unless that is empty.
*/}}
{{- define "service.shared" -}}
{{- $own := index .own .key -}}
{{- $value := $own | default (index .global .key) -}}
{{- if kindIs "map" $value -}}
{{- $value = include "service.merge" (list (index .global .key) $own) | fromYaml -}}
{{- end -}}
{{- with $value }}{{ dict $.key . | toYaml }}{{ end -}}
{{- end -}}
