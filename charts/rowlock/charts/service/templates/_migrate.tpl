{{/* Who migrates: startup, init or job. An owner's secret that no container would get is refused: the role of the replicas would migrate. */}}
{{- define "service.migrations" -}}
{{- $mode := .Values.migrations.mode | default .Values.global.migrations.mode -}}
{{- range $key := list "existingSecret" "clientCertSecret" -}}
{{- if and (eq $mode "startup") (index $.Values.migrations $key) -}}
{{- fail (printf "%s.migrations.%s: in the mode startup one role migrates and serves, and the owner's secret is not used; set migrations.mode to init or job, or leave this out" $.Chart.Name $key) -}}
{{- end -}}
{{- end -}}
{{- $mode -}}
{{- end -}}

{{/* The owner's secrets, which only containers that migrate in the modes init and job get. */}}
{{- define "service.ownerSecret" -}}
{{- .Values.migrations.existingSecret | default (printf "%s-owner" (include "service.databaseSecret" .)) -}}
{{- end -}}

{{- define "service.ownerCertSecret" -}}
{{- $derived := "" -}}
{{- with .Values.database.clientCertSecret }}{{ $derived = printf "%s-owner" . }}{{ end -}}
{{- .Values.migrations.clientCertSecret | default $derived -}}
{{- end -}}

{{/* The container that migrates as the schema's owner and ends. Takes a dict of root and certVolume, the volume with the owner's certificate. */}}
{{- define "service.migrateContainer" -}}
{{- $values := .root.Values -}}
name: migrate
image: {{ include "service.image" .root | quote }}
imagePullPolicy: {{ include "service.pullPolicy" (dict "image" (include "service.image" .root) "policy" $values.image.pullPolicy) }}
args: [migrate]
{{ include "service.containerSecurity" . }}
envFrom:
  {{- include "service.envFrom" .root | nindent 2 }}
env:
  {{- $owner := dict "root" .root "secret" (include "service.ownerSecret" .root) "certSecret" (include "service.ownerCertSecret" .root) }}
  {{- include "service.databaseEnv" $owner | nindent 2 }}
  {{- with $values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
resources:
  {{- toYaml $values.migrations.resources | nindent 2 }}
{{- $cert := ternary .certVolume "" (ne (include "service.ownerCertSecret" .root) "") }}
{{- with include "service.volumeMounts" (dict "root" .root "name" "migrate" "certVolume" $cert) | trim }}
volumeMounts:
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* What the Job runs. It is immutable in the cluster, so the Job's name follows from it. */}}
{{- define "service.migrateJob" -}}
{{- with .Values.migrations.job -}}
backoffLimit: {{ .backoffLimit }}
activeDeadlineSeconds: {{ .activeDeadlineSeconds }}
{{- end }}
template:
  metadata:
    {{- with .Values.migrations.job }}
    {{- include "service.podMetadata" (dict "root" $ "component" "migrate" "labels" .podLabels "annotations" .podAnnotations) | nindent 4 }}
    {{- end }}
  spec:
    restartPolicy: Never
    serviceAccountName: {{ include "service.migrateAccount" . | quote }}
    {{- include "service.podBase" . | nindent 4 }}
    {{- with .Values.initContainers }}
    initContainers:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    containers:
      - {{ include "service.migrateContainer" (dict "root" . "certVolume" "database-client") | indent 8 | trim }}
    {{- $certs := dict "database-client" (include "service.ownerCertSecret" .) }}
    {{- with include "service.volumes" (dict "root" . "name" "migrate" "certs" $certs) | trim }}
    volumes:
      {{- . | nindent 6 }}
    {{- end }}
{{- end -}}

{{/* It has a service account of its own, where the chart makes them. */}}
{{- define "service.migrateAccount" -}}
{{- ternary (printf "%s-migrate" (include "service.fullname" .)) (include "service.serviceAccountName" .) .Values.serviceAccount.create -}}
{{- end -}}
