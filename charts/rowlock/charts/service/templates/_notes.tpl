{{- define "service.budgetNote" -}}
{{- $granted := include "service.grantedConnections" .limit | int -}}
Connections: at most {{ .needed }} of the {{ $granted }} that {{ .where }}={{ .limit }} leaves, at full scale while a new version rolls out.
{{- if lt (sub $granted .needed) 3 }}
WARNING: fewer than three are left. Monitoring and people need a few too.
{{- end }}
{{- end -}}

{{/* Who may call, and whether the database is verified. Takes a list of services. */}}
{{- define "service.accessNotes" -}}
{{- $tokens := list -}}
{{- $trusting := list -}}
{{- $labelled := list -}}
{{- $guarded := list -}}
{{- $open := list -}}
{{- $unverified := list -}}
{{- range . -}}
{{- $name := include "service.name" . -}}
{{- if include "service.auth" . -}}
{{- $tokens = append $tokens $name -}}
{{- else -}}
{{- $trusting = append $trusting $name -}}
{{- end -}}
{{- if include "service.networkPolicy" . -}}
{{- if not (hasKey .Values.networkPolicy "adminFrom") -}}
{{- $guarded = append $guarded $name -}}
{{- end -}}
{{- if not (include "service.networkPolicyValues" . | fromYaml).from -}}
{{- $labelled = append $labelled $name -}}
{{- end -}}
{{- else -}}
{{- $open = append $open $name -}}
{{- end -}}
{{- if contains "sslmode=require" (include "service.parameters" (dict "root" .)) -}}
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
{{- with sortAlpha $guarded }}
Metrics of {{ join ", " . }} are for the peers in networkPolicy.adminFrom, by default the namespace monitoring. For a Prometheus elsewhere:
  --set-json 'global.networkPolicy.adminFrom=[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"NAMESPACE"}}}]'
{{- end }}
{{- with sortAlpha $open }}
Any pod may call {{ join ", " . }}: there is no NetworkPolicy.
{{- end }}
{{- with sortAlpha $unverified }}
The database's certificate is not verified by {{ join ", " . }} (sslmode=require): database.caSecret names the secret with its CA's.
{{- end }}
{{- end -}}

{{/* What must be there before pods start: images, secrets and ConfigMaps. Takes a dict of services and images, a list of others that pods run. */}}
{{- define "service.needsNotes" -}}
{{- $namespace := (first .services).Release.Namespace -}}
{{- $local := list -}}
{{- $secrets := dict -}}
{{- $configMaps := list -}}
{{- range .images -}}
{{- if eq (include "service.pullPolicy" (dict "image" .)) "Never" -}}
{{- $local = append $local . -}}
{{- end -}}
{{- end -}}
{{- range .services -}}
{{- $image := include "service.image" . -}}
{{- if eq (include "service.pullPolicy" (dict "image" $image "policy" .Values.image.pullPolicy)) "Never" -}}
{{- $local = append $local $image -}}
{{- end -}}
{{- $needs := include "service.needs" . | fromJson -}}
{{- $configMaps = concat $configMaps $needs.configMaps | uniq | sortAlpha -}}
{{- range $secret, $keys := $needs.secrets -}}
{{- $_ := set $secrets $secret (concat $keys (get $secrets $secret | default list) | uniq | sortAlpha) -}}
{{- end -}}
{{- end -}}
{{- if $local }}
These images are published nowhere, and must be on every node: `make images` builds them, `kind load docker-image` or the like brings them there.
Or push them to a registry and name it in global.image.registry.
{{- range sortAlpha $local }}
  {{ . }}
{{- end }}
{{- end }}
{{- with $secrets }}
These secrets must exist, with these keys. A pod does not start until its own do.
{{- range $secret, $keys := . }}
  {{ $secret }}: {{ join " " $keys }}
{{- end }}
This names those that are missing:
  kubectl get secret --namespace {{ $namespace }} {{ keys . | sortAlpha | join " " }}
This makes one:
  kubectl create secret generic --namespace {{ $namespace }} NAME --from-literal=KEY=VALUE ...
{{- end }}
{{- with $configMaps }}
These ConfigMaps must exist too: {{ join " " . }}
{{- end }}
{{- end -}}

{{/*
What the pods of a service cannot start without, as JSON: secrets, with their keys, and the configMaps that are yours. It looks at the pods: none is
forgotten.
*/}}
{{- define "service.needs" -}}
{{- $secrets := dict -}}
{{- $configMaps := list -}}
{{- $made := list (include "service.fullname" .) -}}
{{- if not .Values.global.auth.existingConfigMap -}}
{{- $made = append $made (include "service.authConfigMap" .) -}}
{{- end -}}
{{- $pods := list -}}
{{- range $name, $workload := include "service.workloads" . | fromJson -}}
{{- $pods = append $pods (include "service.pod" (dict "root" $ "name" $name "workload" $workload) | fromYaml) -}}
{{- end -}}
{{- if eq (include "service.migrations" .) "job" -}}
{{- $pods = append $pods (include "service.migrateJob" . | fromYaml).template.spec -}}
{{- end -}}
{{- range $pod := $pods -}}
{{- $refs := list -}}
{{- range concat ($pod.initContainers | default list) $pod.containers -}}
{{- range .env -}}
{{- with dig "valueFrom" "secretKeyRef" dict . -}}
{{- $refs = append $refs . -}}
{{- end -}}
{{- end -}}
{{- range .envFrom -}}
{{- with .secretRef -}}
{{- $refs = append $refs (dict "name" .name "key" "..." "optional" .optional) -}}
{{- end -}}
{{- $configMaps = append $configMaps .configMapRef -}}
{{- end -}}
{{- end -}}
{{- range $pod.volumes -}}
{{- $configMaps = append $configMaps .configMap -}}
{{- $volume := .secret | default dict -}}
{{- range $volume.items | default (list (dict "key" "...")) -}}
{{- $refs = append $refs (dict "name" $volume.secretName "key" .key "optional" $volume.optional) -}}
{{- end -}}
{{- end -}}
{{- range $pod.imagePullSecrets -}}
{{- $refs = append $refs (dict "name" .name "key" ".dockerconfigjson") -}}
{{- end -}}
{{- range $refs -}}
{{- if and .name (not .optional) -}}
{{- $_ := set $secrets .name (append (get $secrets .name | default list) .key | uniq) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- range compact $configMaps -}}
{{- if not (or .optional (has .name $made)) -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- end -}}
{{- dict "secrets" $secrets "configMaps" $names | toJson -}}
{{- end -}}

{{- define "service.warnings" -}}
{{- if and (eq (include "service.pooler" .) "transaction") (eq (include "service.migrations" .) "startup") }}
WARNING: {{ include "service.name" . }} migrates through the pooler; in the modes init and job it does by the owner's direct way.
{{- end }}
{{- $outside := or .Values.ingress.enabled .Values.httpRoute.enabled .Values.grpcRoute.enabled }}
{{- if and $outside (include "service.networkPolicy" .) (not (include "service.networkPolicyValues" . | fromYaml).from) }}
WARNING: the NetworkPolicy of {{ include "service.name" . }} admits no ingress controller and no gateway; networkPolicy.from names who may call.
{{- end }}
{{- range $name, $from := include "service.variables" (dict "root" . "key" "secretEnv") | fromYaml }}
{{- if and (not $from.existingSecret) (not $from.optional) }}
WARNING: {{ include "service.name" $ }} runs without {{ $name }}: secretEnv.{{ $name }}.existingSecret is empty.
{{- end }}
{{- end }}
{{- end -}}
