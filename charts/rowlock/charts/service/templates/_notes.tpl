{{- define "service.budgetNote" -}}
Connections: at most {{ .needed }} of {{ .limit }} ({{ .where }}), at full scale while a new version rolls out.
{{- if gt (mul 100 (int .needed)) (mul 95 (int .limit)) }}
WARNING: that is more than 95 %. Migrations, monitoring and people need a few too, and the server keeps three for its superuser.
{{- end }}
{{- end -}}

{{- define "service.warnings" -}}
{{- if and (eq (include "service.pooler" .) "transaction") (eq .Values.migrations.mode "startup") (not .Values.migrations.existingSecret) }}
WARNING: {{ include "service.name" . }} migrates through the pooler; migrations.existingSecret names a direct way.
{{- end }}
{{- range $name, $from := .Values.secretEnv }}
{{- if and (not $from.existingSecret) (not $from.optional) }}
WARNING: {{ include "service.name" $ }} runs without {{ $name }}: secretEnv.{{ $name }}.existingSecret is empty.
{{- end }}
{{- end }}
{{- end -}}
