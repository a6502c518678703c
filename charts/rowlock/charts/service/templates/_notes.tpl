{{- define "service.budgetNote" -}}
Connections: at most {{ .needed }} of {{ .limit }} ({{ .where }}), at full scale while a new version rolls out.
{{- if gt (mul 100 (int .needed)) (mul 95 (int .limit)) }}
WARNING: that is more than 95 %. Migrations, monitoring and people need a few too, and the server keeps three for its superuser.
{{- end }}
{{- end -}}

{{/* Who may call, and whether the database is verified. Takes a list of services. */}}
{{- define "service.accessNotes" -}}
{{- $tokens := list -}}
{{- $trusting := list -}}
{{- $labelled := list -}}
{{- $open := list -}}
{{- $unverified := list -}}
{{- range . -}}
{{- $name := include "service.name" . -}}
{{- if include "service.auth" . -}}
{{- $tokens = append $tokens $name -}}
{{- else -}}
{{- $trusting = append $trusting $name -}}
{{- end -}}
{{- if not (include "service.networkPolicy" .) -}}
{{- $open = append $open $name -}}
{{- else if not (include "service.networkPolicyValues" . | fromYaml).from -}}
{{- $labelled = append $labelled $name -}}
{{- end -}}
{{- if contains "sslmode=require" (include "service.parameters" .) -}}
{{- $unverified = append $unverified $name -}}
{{- end -}}
{{- end -}}
{{- with sortAlpha $tokens }}
Callers of {{ join ", " . }} need a token of the audience {{ include "service.authAudience" (first $) }} from {{ include "service.authIssuer" (first $) }},
and may do what policy.yaml in the ConfigMap {{ include "service.authConfigMap" (first $) }} allows.
{{- end }}
{{- with sortAlpha $trusting }}
No token is asked of callers of {{ join ", " . }}: a pod that reaches a port may do everything. Production wants global.auth.enabled=true.
{{- end }}
{{- with sortAlpha $labelled }}
Pods that call {{ join ", " . }} need the label rowlock.dev/client: "true" (NetworkPolicy).
{{- end }}
{{- with sortAlpha $open }}
Any pod may call {{ join ", " . }}: there is no NetworkPolicy.
{{- end }}
{{- with sortAlpha $unverified }}
The database's certificate is not verified by {{ join ", " . }} (sslmode=require): database.caSecret names the secret with its CA's.
{{- end }}
{{- end -}}

{{- define "service.warnings" -}}
{{- if and (eq (include "service.pooler" .) "transaction") (eq (include "service.migrations" .) "startup") (not .Values.migrations.existingSecret) }}
WARNING: {{ include "service.name" . }} migrates through the pooler; migrations.existingSecret names a direct way.
{{- end }}
{{- range $name, $from := include "service.variables" (dict "root" . "key" "secretEnv") | fromYaml }}
{{- if and (not $from.existingSecret) (not $from.optional) }}
WARNING: {{ include "service.name" $ }} runs without {{ $name }}: secretEnv.{{ $name }}.existingSecret is empty.
{{- end }}
{{- end }}
{{- end -}}
