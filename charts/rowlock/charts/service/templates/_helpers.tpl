{{/* The service's name, for labels. */}}
{{- define "service.name" -}}
{{- .Values.name | default .Chart.Name -}}
{{- end -}}

{{/* Name of the objects: <release>-<service>; the release's name where this chart is released alone. */}}
{{- define "service.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if .Chart.IsRoot -}}
{{- .Release.Name -}}
{{- else -}}
{{- /* Room for -internal. It is the release's name that is cut: the services' names tell them apart. */ -}}
{{- printf "%s-%s" (.Release.Name | trunc (sub 51 (len .Chart.Name) | int) | trimSuffix "-") .Chart.Name -}}
{{- end -}}
{{- end -}}

{{/* Name of a workload's objects. Takes a dict of root and workload. `serve` is the service itself. */}}
{{- define "service.workloadName" -}}
{{- include "service.fullname" .root -}}{{- if ne .workload "serve" }}-{{ .workload }}{{- end -}}
{{- end -}}

{{/* The tag, and a digest if there is one. image.digest is about the appVersion, and so about no other tag. */}}
{{- define "service.tag" -}}
{{- $image := .Values.image | default dict -}}
{{- $tag := $image.tag | default .Values.global.image.tag -}}
{{- $tag | default .Chart.AppVersion -}}
{{- with $image.digest }}{{ if not $tag }}@{{ . }}{{ end }}{{ end -}}
{{- end -}}

{{/* The tag as a label, without a digest. */}}
{{- define "service.version" -}}
{{- regexReplaceAll "@.*" (include "service.tag" .) "" | trunc 63 | trimAll "-_." -}}
{{- end -}}

{{- define "service.image" -}}
{{- $repository := .Values.image.repository | required (printf "%s.image.repository is required: the image of the service" .Chart.Name) -}}
{{- $registry := .Values.image.registry | default .Values.global.image.registry -}}
{{- with $registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $repository }}:{{ include "service.tag" . }}
{{- end -}}

{{/*
When to pull; takes a dict of image, its whole name, and policy. A name without a registry would lead to Docker Hub's rowlock/, which is not ours:
such an image must be on the node.
*/}}
{{- define "service.pullPolicy" -}}
{{- .policy | default (ternary "IfNotPresent" "Never" (regexMatch "^([^/]*[.:][^/]*|localhost)/" .image)) -}}
{{- end -}}

{{- define "service.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "service.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* The enabled workloads with their own settings over those of the service, as JSON: fromJson it. */}}
{{- define "service.workloads" -}}
{{- $all := dict -}}
{{- range $name, $own := .Values.workloads -}}
{{- $common := dict "enabled" true "replicas" $.Values.replicas "autoscaling" $.Values.autoscaling "resources" $.Values.resources
      "database" (dict "maxOpenConns" $.Values.database.maxOpenConns) -}}
{{- $settings := mergeOverwrite (deepCopy $common) (deepCopy ($own | default dict)) -}}
{{- if $settings.enabled -}}
{{- $_ := set $all $name $settings -}}
{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{/*
A value of config as text; takes a dict of where and value. Numbers of a values file are floats: a large one must not come out as 2.68435456e+08,
and has lost its last digits when it is too large.
*/}}
{{- define "service.scalar" -}}
{{- if not (kindIs "float64" .value) -}}
{{- toString .value -}}
{{- else if ne (floor .value) .value -}}
{{- .value -}}
{{- else if gt (maxf .value (mulf -1 .value)) 9007199254740992.0 -}}
{{- fail (printf "%s: write so large a number in quotes, or digits get lost" .where) -}}
{{- else -}}
{{- int64 .value -}}
{{- end -}}
{{- end -}}

{{/*
Fails on a key below global that VALUES.md does not list. For a release's own chart alone: a parent's globals are for others too, and Rancher adds
two to any. Takes a dict of root, path and values.
*/}}
{{- define "service.checkGlobal" -}}
{{- $rows := .root.Files.Get "VALUES.md" -}}
{{- range $key, $value := .values -}}
{{- $path := printf "%s.%s" $.path $key -}}
{{- if contains (printf "| `%s." $path) $rows -}}
{{- include "service.checkGlobal" (dict "root" $.root "path" $path "values" $value) -}}
{{- else if not (or (contains (printf "| `%s` |" $path) $rows) (has $path (list "global.cattle" "global.systemDefaultRegistry"))) -}}
{{- fail (printf "%s: there is no such value; VALUES.md lists all" $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}
