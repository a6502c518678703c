{{/*
Whether there is a NetworkPolicy: anything or nothing. `auto` is yes for an installation. An upgrade keeps what the release had: where nothing
says it, the cluster is asked, which `helm template` cannot.
*/}}
{{- define "service.networkPolicy" -}}
{{- $enabled := .Values.networkPolicy.enabled -}}
{{- if kindIs "string" $enabled -}}
{{- $enabled = .Values.global.networkPolicy.enabled -}}
{{- end -}}
{{- if kindIs "string" $enabled -}}
{{- $enabled = or .Release.IsInstall (lookup "networking.k8s.io/v1" "NetworkPolicy" .Release.Namespace (include "service.fullname" .)) -}}
{{- end -}}
{{- if $enabled }}yes{{ end -}}
{{- end -}}

{{/* What a NetworkPolicy says, as YAML: the service's own keys over those of global. */}}
{{- define "service.networkPolicyValues" -}}
{{- (include "service.shared" (dict "own" .Values "global" .Values.global "key" "networkPolicy") | fromYaml).networkPolicy | toYaml -}}
{{- end -}}

{{/* Who may call by default: pods with the label, of this namespace and of those of clientNamespaces. */}}
{{- define "service.clients" -}}
- podSelector: {matchLabels: {rowlock.dev/client: "true"}}
{{- range .clientNamespaces }}
- podSelector: {matchLabels: {rowlock.dev/client: "true"}}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ . | quote }}}}
{{- end }}
{{- end -}}

{{/* Whether traces go to a collector: anything or nothing. */}}
{{- define "service.traces" -}}
{{- range $name, $_ := include "service.variables" (dict "root" . "key" "config") | fromYaml -}}
{{- if regexMatch "^OTEL_EXPORTER_OTLP_([A-Z]+_)?ENDPOINT$" $name }}yes{{ end -}}
{{- end -}}
{{- end -}}

{{/* The API's port on a Service; takes a dict of root and port. */}}
{{- define "service.apiPort" -}}
name: http
port: {{ .port }}
targetPort: http
{{- with .root.Values.service.appProtocol }}
appProtocol: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Which IP families a Service has, or nothing: Kubernetes' default. */}}
{{- define "service.ipFamilies" -}}
{{- range list "ipFamilyPolicy" "ipFamilies" }}
{{- with include "service.shared" (dict "own" $.Values.service "global" $.Values.global.service "key" .) }}
{{ . }}
{{- end }}
{{- end }}
{{- end -}}
