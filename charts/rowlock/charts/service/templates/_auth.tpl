{{/* Whether callers are asked for a token: anything or nothing. */}}
{{- define "service.auth" -}}
{{- $enabled := .Values.auth.enabled -}}
{{- if kindIs "string" $enabled -}}
{{- $enabled = .Values.global.auth.enabled -}}
{{- end -}}
{{- if $enabled }}yes{{ end -}}
{{- end -}}

{{/* Who signs the tokens, and for whom. */}}
{{- define "service.authIssuer" -}}
{{- .Values.global.auth.issuer -}}
{{- end -}}

{{- define "service.authAudience" -}}
{{- .Values.global.auth.audience -}}
{{- end -}}

{{/* The ConfigMap with the policy: yours, or the release's. */}}
{{- define "service.authConfigMap" -}}
{{- .Values.global.auth.existingConfigMap | default (printf "%s-auth" .Release.Name) -}}
{{- end -}}

{{/*
The release's policy, where callers need a token and you have no ConfigMap; takes a dict of root and rules, which come after yours. It is in no
checksum: a replica reads what changes.
*/}}
{{- define "service.authPolicy" -}}
{{- $auth := .root.Values.global.auth -}}
{{- if not $auth.existingConfigMap -}}
{{- if not $auth.rules -}}
{{- fail "global.auth.rules is empty, so no caller could do anything: list who may do what, or name a ConfigMap in global.auth.existingConfigMap; see the chart's README" -}}
{{- end -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "service.metadata" (dict "root" .root "name" (include "service.authConfigMap" .root)) | nindent 2 }}
data:
  policy.yaml: |
    {{- dict "rules" (concat $auth.rules .rules) | toYaml | nindent 4 }}
{{- end -}}
{{- end -}}

{{/* A token of the pod's service account, for an audience or, without one, for the API server. Takes a dict of audience. */}}
{{- define "service.token" -}}
serviceAccountToken:
  path: token
  expirationSeconds: 600
  {{- with .audience }}
  audience: {{ . | quote }}
  {{- end }}
{{- end -}}

{{/* The variables of replicas that serve. */}}
{{- define "service.authEnv" -}}
- name: AUTH
  value: {{ ternary "token" "off" (ne (include "service.auth" .) "") | quote }}
{{- if include "service.auth" . }}
- name: AUTH_ISSUER
  value: {{ include "service.authIssuer" . | quote }}
- name: AUTH_AUDIENCE
  value: {{ include "service.authAudience" . | quote }}
- name: AUTH_POLICY
  value: /etc/auth-policy/policy.yaml
{{- if not .Values.global.auth.publicIssuer }}
- name: AUTH_KEYS_URL # where every cluster has them; the issuer's configuration may name the API server by its address
  value: https://kubernetes.default.svc/openid/v1/jwks
- name: AUTH_CA_FILE
  value: /etc/auth-issuer/ca.crt
- name: AUTH_TOKEN_FILE
  value: /etc/auth-issuer/token
{{- end }}
{{- end }}
{{- end -}}

{{/* Their volumes; takes a dict of root and name. The policy is no subPath, which would never change. */}}
{{- define "service.authVolumes" -}}
{{- if and (eq .name "serve") (include "service.auth" .root) -}}
- name: auth-policy
  configMap:
    name: {{ include "service.authConfigMap" .root | quote }}
{{- if not .root.Values.global.auth.publicIssuer }}
- name: auth-issuer
  projected:
    sources:
      - {{- include "service.token" dict | nindent 8 }}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
{{- end }}
{{- end }}
{{- end -}}

{{/* Where they are mounted; takes a dict of root and the container's name. */}}
{{- define "service.authMounts" -}}
{{- if and (eq .name "serve") (include "service.auth" .root) -}}
- {name: auth-policy, mountPath: /etc/auth-policy, readOnly: true}
{{- if not .root.Values.global.auth.publicIssuer }}
- {name: auth-issuer, mountPath: /etc/auth-issuer, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}
