{{/* One variable out of a secret. */}}
{{- define "service.secretVariable" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret | quote }}
      key: {{ .key | quote }}
{{- if .optional }}
      optional: true
{{- end }}
{{- end -}}

{{/* Where a container's variables come from. The last one that has a name wins: the chart's own. */}}
{{- define "service.envFrom" -}}
{{- with .Values.extraEnvFrom }}
{{- toYaml . }}
{{ end }}
{{- "" }}- configMapRef:
    name: {{ include "service.fullname" . | quote }}
{{- end -}}

{{/* What the chart says itself; .Values.config must not. */}}
{{- define "service.config" -}}
DB_POOLER: {{ include "service.pooler" . }}
MIGRATE_ON_START: {{ eq (include "service.migrations" .) "startup" | quote }}
HTTP_ADDR: ":8080"
ADMIN_ADDR: ":9090"
{{- if .Values.internalService.enabled }}
INTERNAL_HTTP_ADDR: ":8081"
{{- end }}
{{- if .Values.spool.enabled }}
SPOOL_MAX: {{ printf "%dMiB" (int .Values.spool.maxMiB) }}
{{- end }}
SHUTDOWN_DELAY: {{ printf "%ds" (int .Values.shutdown.delaySeconds) }}
SHUTDOWN_TIMEOUT: {{ printf "%ds" (int .Values.shutdown.timeoutSeconds) }}
{{- end -}}

{{/* The values config, or those of secretEnv, of the service over those of global. Takes a dict of root and key; fromYaml it. */}}
{{- define "service.variables" -}}
{{- include "service.merge" (list (index .root.Values.global .key) (index .root.Values .key)) -}}
{{- end -}}

{{/* The ConfigMap's data. The pods' checksum is of this alone: a label that changes rolls no pod. */}}
{{- define "service.configData" -}}
{{ include "service.config" . }}
{{- range $name, $value := include "service.variables" (dict "root" . "key" "config") | fromYaml }}
{{ $name }}: {{ include "service.scalar" (dict "where" (printf "%s.config.%s" (ternary $.Chart.Name "global" (hasKey ($.Values.config | default dict) $name)) $name) "value" $value) | quote }}
{{- end }}
{{- end -}}

{{/*
The processors for Go code: as many as the container asks for, rounded up. With more Go wakes idle threads for almost every request
(docs/performance.md). Nothing where GOMAXPROCS is among the values' own variables.
*/}}
{{- define "service.processors" -}}
{{- $own := dict -}}
{{- range .Values.extraEnv -}}
{{- $_ := set $own .name "" -}}
{{- end -}}
{{- range $key := list "config" "secretEnv" -}}
{{- $own = merge $own (include "service.variables" (dict "root" $ "key" $key) | fromYaml) -}}
{{- end -}}
{{- if not (hasKey $own "GOMAXPROCS") -}}
- name: GOMAXPROCS
  valueFrom:
    resourceFieldRef:
      resource: requests.cpu
      divisor: "1"
{{- end -}}
{{- end -}}

{{/*
Refuses what would be set twice (Helm 3 lets the last one win, Helm 4 fails on the server) or stand in clear, and a time for requests that is
longer than the one to end in: then no replica starts. The service itself judges the rest.
*/}}
{{- define "service.checkConfig" -}}
{{- $taken := merge (dict "DATABASE_URL" "" "MIGRATE_DATABASE_URL" "" "DB_MAX_OPEN_CONNS" "" "INTERNAL_HTTP_ADDR" "") (include "service.config" . | fromYaml) -}}
{{- $database := include "service.databaseEnv" (dict "root" . "secret" "any") | fromYamlArray -}}
{{- range concat $database (include "service.authEnv" . | fromYamlArray) -}}
{{- $_ := set $taken .name "" -}}
{{- end -}}
{{- $config := include "service.variables" (dict "root" . "key" "config") | fromYaml -}}
{{- $secrets := include "service.variables" (dict "root" . "key" "secretEnv") | fromYaml -}}
{{- $request := get $config "REQUEST_TIMEOUT" | default "10s" -}}
{{- range $section, $values := dict .Chart.Name .Values "global" .Values.global -}}
{{- range $name, $_ := $values.config -}}
{{- if hasKey $taken $name -}}
{{- fail (printf "%s.config.%s: the chart sets %s by a value of its own; see its VALUES.md" $section $name $name) -}}
{{- end -}}
{{- if or (hasKey $secrets $name) (regexMatch "^OTEL_EXPORTER_OTLP_([A-Z]+_)?HEADERS$|_SECRET(_PREVIOUS)?$|_DATABASE_URL$|PASSWORD$" $name) -}}
{{- fail (printf "%s.config.%s: config ends in a ConfigMap, which is no place for it; name a secret in secretEnv.%s" $section $name $name) -}}
{{- end -}}
{{- end -}}
{{- range $name, $from := $values.secretEnv -}}
{{- if hasKey $taken $name -}}
{{- fail (printf "%s.secretEnv.%s: the chart sets %s by a value of its own; see its VALUES.md" $section $name $name) -}}
{{- end -}}
{{- if and $from.existingSecret (eq $name "REQUEST_TIMEOUT") -}}
{{- $request = "unknown" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $extra := dict -}}
{{- range .Values.extraEnv -}}
{{- if hasKey $taken .name -}}
{{- fail (printf "%s.extraEnv: the chart sets %s by a value of its own; see its VALUES.md" $.Chart.Name .name) -}}
{{- end -}}
{{- if or (hasKey $config .name) (dig .name "existingSecret" "" $secrets) (hasKey $extra .name) -}}
{{- fail (printf "%s.extraEnv: %s is set twice, here or in config and secretEnv" $.Chart.Name .name) -}}
{{- end -}}
{{- $_ := set $extra .name (.value | default "") -}}
{{- if eq .name "REQUEST_TIMEOUT" -}}
{{- $request = .value | default "unknown" -}}
{{- end -}}
{{- end -}}
{{- range $name, $flag := .Values.requiredSecrets -}}
{{- $allowed := or (eq (toString (get $config $flag)) "true") (eq (toString (get $extra $flag)) "true") -}}
{{- if not (or $allowed (dig $name "existingSecret" "" $secrets) (hasKey $extra $name)) -}}
{{- fail (printf "%s.secretEnv.%s.existingSecret is empty: name a secret whose key %q holds 32 bytes or more (openssl rand -hex 32), or, for tests alone, set %s.config.%s to true" $.Chart.Name $name (dig $name "key" "current" $secrets) $.Chart.Name $flag) -}}
{{- end -}}
{{- end -}}
{{- $request = include "service.seconds" (toString $request) -}}
{{- if and $request (le (int .Values.shutdown.timeoutSeconds) (int $request)) -}}
{{- fail (printf "%s.shutdown.timeoutSeconds is %d: no replica starts with less time for requests in flight than one may take, and REQUEST_TIMEOUT is %s s" $.Chart.Name (int .Values.shutdown.timeoutSeconds) $request) -}}
{{- end -}}
{{- end -}}

{{/* Whole seconds of a plain duration such as 90s or 2m; nothing for others, which are left to the service. */}}
{{- define "service.seconds" -}}
{{- if regexMatch "^[1-9][0-9]{0,5}s$" . -}}
{{- trimSuffix "s" . | int -}}
{{- else if regexMatch "^[1-9][0-9]{0,4}m$" . -}}
{{- mul 60 (trimSuffix "m" . | int) -}}
{{- end -}}
{{- end -}}
