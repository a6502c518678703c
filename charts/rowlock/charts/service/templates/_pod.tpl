{{/* A workload's pod. Takes a dict of root, name and workload. */}}
{{- define "service.pod" -}}
{{- $values := .root.Values -}}
serviceAccountName: {{ include "service.serviceAccountName" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- include "service.podSettings" (dict "own" $values "global" $values.global) }}
{{- /* Not a number: the image names 65532, and OpenShift chooses its own. */}}
securityContext:
  runAsNonRoot: true
  seccompProfile:
    type: RuntimeDefault
terminationGracePeriodSeconds: {{ include "service.graceSeconds" .root }}
{{- $spread := (include "service.shared" (dict "own" $values "global" $values.global "key" "topologySpread") | fromYaml).topologySpread }}
topologySpreadConstraints:
  {{- range $spread.topologyKeys }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: {{ $spread.whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "service.selector" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $.name }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- $migrates := eq (include "service.migrations" .root) "init" }}
{{- if or $migrates $values.initContainers }}
initContainers:
  {{- /* Yours first: one may be the way to the database. */}}
  {{- with $values.initContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- if $migrates }}
  - name: migrate
    image: {{ include "service.image" .root | quote }}
    imagePullPolicy: {{ include "service.pullPolicy" (dict "image" (include "service.image" .root) "policy" $values.image.pullPolicy) }}
    args: [migrate]
    {{- include "service.migrateContainer" . | nindent 4 }}
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
{{- $ca := include "service.caSecret" .root }}
{{- $auth := include "service.authVolumes" . }}
{{- if or $ca $auth $values.spool.enabled $values.extraVolumes }}
volumes:
  {{- with $ca }}
  - name: database-ca
    secret:
      secretName: {{ . }}
      # No more of it: CloudNativePG keeps the CA's private key beside the certificate.
      items:
        - {key: ca.crt, path: ca.crt}
  {{- end }}
  {{- if $values.spool.enabled }}
  - name: spool
    emptyDir:
      sizeLimit: {{ add $values.spool.maxMiB 64 }}Mi
  {{- end }}
  {{- with $auth }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $values.extraVolumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Where a pod runs, who pulls its images, and how it resolves names. Takes a dict of own (the section that says it) and global. */}}
{{- define "service.podSettings" -}}
{{- with concat (.own.imagePullSecrets | default list) (.global.imagePullSecrets | default list) | uniq }}
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

{{/* Takes a dict of root and the container's name. */}}
{{- define "service.volumeMounts" -}}
{{- $auth := include "service.authMounts" . }}
{{- with .root }}
{{- $ca := include "service.caSecret" . }}
{{- if or $ca $auth .Values.spool.enabled .Values.extraVolumeMounts }}
volumeMounts:
  {{- if $ca }}
  - {name: database-ca, mountPath: /etc/database-ca, readOnly: true}
  {{- end }}
  {{- if .Values.spool.enabled }}
  - {name: spool, mountPath: /tmp}
  {{- end }}
  {{- with $auth }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The rest of the container that migrates as the schema's owner and ends, before the replica's starts. */}}
{{- define "service.migrateContainer" -}}
{{- $values := .root.Values -}}
{{ include "service.containerSecurity" . }}
envFrom:
  - configMapRef:
      name: {{ include "service.fullname" .root }}
env:
  {{- $owner := $values.migrations.existingSecret | default (printf "%s-owner" (include "service.databaseSecret" .root)) }}
  {{- include "service.databaseEnv" (dict "root" .root "secret" $owner) | nindent 2 }}
  {{- with $values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
resources:
  {{- toYaml .workload.resources | nindent 2 }}
{{- include "service.volumeMounts" (dict "root" .root "name" "migrate") }}
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
  - configMapRef:
      name: {{ include "service.fullname" .root }}
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
{{- include "service.volumeMounts" (dict "root" .root "name" .name) }}
{{- end -}}
