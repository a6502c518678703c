{{- define "service.databaseSecret" -}}
{{- .Values.database.existingSecret | required (printf "%s.database.existingSecret is required: the secret with the way to the database" .Chart.Name) -}}
{{- end -}}

{{/* The secret with the certificate of the authority that signed the database's, or nothing. */}}
{{- define "service.caSecret" -}}
{{- .Values.database.caSecret | default .Values.global.database.caSecret | default "" -}}
{{- end -}}

{{- define "service.pooler" -}}
{{- .Values.database.pooler | default .Values.global.database.pooler -}}
{{- end -}}

{{/* Whether replicas read the password out of a file: anything or nothing. A whole URI has its password in it. */}}
{{- define "service.passwordFile" -}}
{{- $enabled := .Values.database.passwordFile -}}
{{- if kindIs "string" $enabled -}}
{{- $enabled = .Values.global.database.passwordFile -}}
{{- else if and $enabled .Values.database.keys.uri -}}
{{- fail (printf "%s.database.passwordFile: database.keys.uri is a whole URI, whose password is in it; leave one of the two out" .Chart.Name) -}}
{{- end -}}
{{- if and $enabled (not .Values.database.keys.uri) }}yes{{ end -}}
{{- end -}}

{{/* What follows the ? of the database's URL. Takes a dict of root and certSecret, the secret with the client's certificate, or nothing. */}}
{{- define "service.parameters" -}}
{{- $certSecret := .certSecret -}}
{{- with .root -}}
{{- $parameters := .Values.database.parameters -}}
{{- if and (not $parameters) (not .Values.database.keys.uri) -}}
{{- $verified := ternary "sslmode=verify-full&sslrootcert=/etc/database-ca/ca.crt" "sslmode=require" (ne (include "service.caSecret" .) "") -}}
{{- $parameters = .Values.global.database.parameters | default $verified -}}
{{- end -}}
{{- if and $parameters (eq (include "service.pooler" .) "transaction") (not (contains "binary_parameters=" $parameters)) -}}
{{- $parameters = printf "%s&binary_parameters=yes" $parameters -}}
{{- end -}}
{{- if and $parameters $certSecret (not (contains "sslcert=" $parameters)) -}}
{{- $parameters = printf "%s&sslcert=/etc/database-client/tls.crt&sslkey=/etc/database-client/tls.key" $parameters -}}
{{- end -}}
{{- with $parameters }}?{{ . }}{{ end -}}
{{- end -}}
{{- end -}}

{{/*
The way to the database out of a secret; takes a dict of root, secret, certSecret and passwordFile. What separate keys hold is not put into the
URL, where a password would have to be escaped and an IPv6 address be in brackets: the driver reads the variables PG*. $(NAME) is put in by
Kubernetes.
*/}}
{{- define "service.databaseEnv" -}}
{{- $secret := .secret -}}
{{- $passwordFile := .passwordFile -}}
{{- $parameters := include "service.parameters" . -}}
{{- with .root -}}
{{- $keys := .Values.database.keys -}}
{{- if $keys.uri -}}
{{ include "service.secretVariable" (dict "name" "DATABASE_URI" "secret" $secret "key" $keys.uri) }}
- name: DATABASE_URL
  value: "$(DATABASE_URI){{ $parameters }}"
{{- else -}}
{{ include "service.secretVariable" (dict "name" "PGHOST" "secret" $secret "key" $keys.host) }}
{{ include "service.secretVariable" (dict "name" "PGPORT" "secret" $secret "key" $keys.port) }}
{{ include "service.secretVariable" (dict "name" "PGDATABASE" "secret" $secret "key" $keys.name) }}
{{ include "service.secretVariable" (dict "name" "PGUSER" "secret" $secret "key" $keys.user) }}
{{- if $passwordFile }}
{{- $parameters = printf "%s&password_file=/etc/database-password/password" $parameters }}
{{- else }}
{{ include "service.secretVariable" (dict "name" "PGPASSWORD" "secret" $secret "key" $keys.password) }}
{{- end }}
- name: DATABASE_URL
  value: "postgres://{{ $parameters }}"
{{- end }}
{{- end -}}
{{- end -}}

{{/* What a replica gets of it: nothing of the owner's. */}}
{{- define "service.servingEnv" -}}
{{- include "service.databaseEnv" (dict "root" . "secret" (include "service.databaseSecret" .) "certSecret" .Values.database.clientCertSecret
      "passwordFile" (include "service.passwordFile" .)) -}}
{{- end -}}

{{/*
The files for it, as a list of volumes; takes a dict of root, certs, the secrets with client certificates by the names of their volumes (or
nothing), and passwordFile.
*/}}
{{- define "service.databaseVolumes" -}}
{{- with include "service.caSecret" .root }}
- name: database-ca
  secret:
    secretName: {{ . | quote }}
    # No more of it: CloudNativePG keeps the CA's private key beside the certificate.
    items:
      - {key: ca.crt, path: ca.crt}
{{- end }}
{{- range $volume, $secret := .certs }}
{{- if $secret }}
- name: {{ $volume }}
  secret:
    secretName: {{ $secret | quote }}
    # The driver refuses a key that all may read. It belongs to root, and fsGroup may read it.
    defaultMode: 0440
    items:
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
{{- end }}
{{- end }}
{{- if .passwordFile }}
{{- /* No subPath, which would never change. */}}
- name: database-password
  secret:
    secretName: {{ include "service.databaseSecret" .root | quote }}
    items:
      - {key: {{ .root.Values.database.keys.password | quote }}, path: password}
{{- end }}
{{- end -}}

{{/* Where they are mounted, as a list; takes a dict of root, certVolume, the volume with the client's certificate or nothing, and passwordFile. */}}
{{- define "service.databaseMounts" -}}
{{- if include "service.caSecret" .root }}
- {name: database-ca, mountPath: /etc/database-ca, readOnly: true}
{{- end }}
{{- with .certVolume }}
- {name: {{ . }}, mountPath: /etc/database-client, readOnly: true}
{{- end }}
{{- if .passwordFile }}
- {name: database-password, mountPath: /etc/database-password, readOnly: true}
{{- end }}
{{- end -}}
