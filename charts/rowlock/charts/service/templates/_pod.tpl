{{/* A workload's pod. Takes a dict of root, name and workload. */}}
{{- define "service.pod" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ include "service.serviceAccountName" .root | quote }}
{{ include "service.podBase" .root }}
terminationGracePeriodSeconds: {{ include "service.graceSeconds" .root }}
{{- $spread := (include "service.shared" (dict "own" $values "global" $values.global "key" "topologySpread") | fromYaml).topologySpread }}
{{- range $key, $_ := $spread.whenUnsatisfiableOf }}
{{- if not (has $key $spread.topologyKeys) }}
{{- fail (printf "%s.topologySpread.whenUnsatisfiableOf: %s is not in topologyKeys" $.root.Chart.Name $key) }}
{{- end }}
{{- end }}
topologySpreadConstraints:
  {{- range $spread.topologyKeys }}
  - maxSkew: 1
    topologyKey: {{ . | quote }}
    whenUnsatisfiable: {{ get ($spread.whenUnsatisfiableOf | default dict) . | default $spread.whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "service.selector" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $.name }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- $certs := dict "database-client" $values.database.clientCertSecret }}
{{- $migrates := eq (include "service.migrations" .root) "init" }}
{{- if or $migrates $values.initContainers }}
initContainers:
  {{- /* Yours first: one may be the way to the database. */}}
  {{- with $values.initContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- if $migrates }}
{{- $_ := set $certs "database-client-owner" (include "service.ownerCertSecret" .root) }}
  - {{ include "service.migrateContainer" (dict "root" .root "certVolume" "database-client-owner") | indent 4 | trim }}
{{- end }}
containers:
  - name: {{ .name }}
    image: {{ include "service.image" .root | quote }}
    imagePullPolicy: {{ include "service.pullPolicy" (dict "image" (include "service.image" .root) "policy" $values.image.pullPolicy) }}
    args: [{{ .name }}]
    {{- include "service.container" . | nindent 4 }}
  {{- with $values.sidecars }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $files := dict "root" .root "name" .name "certs" $certs "passwordFile" (include "service.passwordFile" .root) }}
{{- with include "service.volumes" $files | trim }}
volumes:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What the pods of the replicas and of the Job that migrates have in common. */}}
{{- define "service.podBase" -}}
{{- $values := .Values -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- include "service.podSettings" (dict "own" $values "global" $values.global) }}
{{- /* Not a number: the image names 65532, and OpenShift chooses its own. */}}
securityContext:
  runAsNonRoot: true
  seccompProfile:
    type: RuntimeDefault
  {{- $group := $values.podSecurityContext.fsGroup }}
  {{- if and $group (or $values.database.clientCertSecret $values.migrations.clientCertSecret) }}
  fsGroup: {{ $group }}
  {{- end }}
{{- end -}}

{{/* Where a pod runs, who pulls its images, and how it resolves names. Takes a dict of own (the section that says it) and global. */}}
{{- define "service.podSettings" -}}
{{- $pullers := list }}
{{- range concat (.own.imagePullSecrets | default list) (.global.imagePullSecrets | default list) }}
{{- $pullers = append $pullers (ternary (dict "name" .) . (kindIs "string" .)) }}
{{- end }}
{{- with uniq $pullers }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range list "priorityClassName" "nodeSelector" "tolerations" "affinity" "dnsConfig" "hostAliases" }}
{{- with include "service.shared" (dict "own" $.own "global" $.global "key" .) }}
{{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "service.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* A pod's volumes, as a list. Takes a dict of root, the container's name, and what service.databaseVolumes takes. */}}
{{- define "service.volumes" -}}
{{- include "service.databaseVolumes" . }}
{{- with .root.Values }}
{{- if and .spool.enabled (ne $.name "migrate") }}
- name: spool
  emptyDir:
    sizeLimit: {{ add .spool.maxMiB 64 }}Mi
{{- end }}
{{- with include "service.authVolumes" $ }}
{{ . }}
{{- end }}
{{- with .extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Where a container mounts them, as a list. Takes a dict of root, its name, and what service.databaseMounts takes. */}}
{{- define "service.volumeMounts" -}}
{{- include "service.databaseMounts" . }}
{{- with .root.Values }}
{{- if and .spool.enabled (ne $.name "migrate") }}
- {name: spool, mountPath: /tmp}
{{- end }}
{{- with include "service.authMounts" $ }}
{{ . }}
{{- end }}
{{- with .extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The rest of its container. */}}
{{- define "service.container" -}}
{{- $values := .root.Values -}}
{{ include "service.containerSecurity" . }}
ports:
  {{- if eq .name "serve" }}
  - {name: http, containerPort: 8080}
  {{- if $values.internalService.enabled }}
  - {name: internal, containerPort: 8081}
  {{- end }}
  {{- end }}
  - {name: admin, containerPort: 9090}
envFrom:
  {{- include "service.envFrom" .root | nindent 2 }}
env:
  {{- include "service.servingEnv" .root | nindent 2 }}
  - name: DB_MAX_OPEN_CONNS
    value: {{ .workload.database.maxOpenConns | quote }}
  {{- if eq .name "serve" }}
  {{- include "service.authEnv" .root | nindent 2 }}
  {{- end }}
  {{- range $name, $from := include "service.variables" (dict "root" .root "key" "secretEnv") | fromYaml }}
  {{- if $from.existingSecret }}
  {{- include "service.secretVariable" (dict "name" $name "secret" $from.existingSecret "key" $from.key "optional" $from.optional) | nindent 2 }}
  {{- end }}
  {{- end }}
  {{- with $values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with include "service.processors" .root }}
  {{- . | nindent 2 }}
  {{- end }}
{{- /* Neither of the first two asks the database: to start a replica again does not bring it back. */}}
startupProbe:
  httpGet: {path: /livez, port: admin}
  {{- toYaml $values.startupProbe | nindent 2 }}
livenessProbe:
  httpGet: {path: /livez, port: admin}
  {{- toYaml $values.livenessProbe | nindent 2 }}
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  {{- toYaml $values.readinessProbe | nindent 2 }}
lifecycle:
  preStop:
    sleep:
      seconds: {{ $values.shutdown.preStopSeconds }}
resources:
  {{- toYaml .workload.resources | nindent 2 }}
{{- $files := dict "root" .root "name" .name "certVolume" (ternary "database-client" "" (not (empty $values.database.clientCertSecret)))
      "passwordFile" (include "service.passwordFile" .root) }}
{{- with include "service.volumeMounts" $files | trim }}
volumeMounts:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}
