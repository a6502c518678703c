{{/*
The connections that the replicas of a service open at most, while a new version rolls out at the top of the autoscaler's range: those that
are wanted, those that have come before others go, and those that are just ending, which keep their connections until they have drained.
*/}}
{{- define "service.connections" -}}
{{- $sum := 0 -}}
{{- range $name, $workload := include "service.workloads" . | fromJson -}}
{{- $sum = add $sum (mul (include "service.peak" (dict "root" $ "settings" $workload)) (include "service.connectionsPerReplica" (dict "root" $ "settings" $workload))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/*
Replicas of a workload at most: wanted, surge and ending. A Deployment does not count a replica that is ending, and makes the next new one at the
moment in which it tells an old one to end. That one is gone after its grace period at the latest. So as many steps of a rollout overlap as
minReadySeconds go into the grace period, of maxSurge replicas each, or of one; at worst all old ones stand beside all new ones.
*/}}
{{- define "service.peak" -}}
{{- $most := int .settings.replicas -}}
{{- if or .settings.autoscaling.enabled (kindIs "invalid" .settings.replicas) -}}
{{- $most = int .settings.autoscaling.maxReplicas -}}
{{- end -}}
{{- $surge := include "service.maxSurge" . -}}
{{- if hasSuffix "%" $surge -}}
{{- $surge = ceil (divf (mulf $most (trimSuffix "%" $surge)) 100) -}}
{{- end -}}
{{- $pace := include "service.minReadySeconds" .root | int -}}
{{- $all := mul 2 $most -}}
{{- if $pace -}}
{{- $all = min $all (add $most $surge (mul (max $surge 1) (ceil (divf (include "service.graceSeconds" .root) $pace)))) -}}
{{- end -}}
{{- $all -}}
{{- end -}}

{{/*
The surge of a workload's rollout. A replica that may be the only one is never missing, nor are those whose number another autoscaler
chooses, because their least is not known here. Takes a dict of root and settings.
*/}}
{{- define "service.maxSurge" -}}
{{- $least := .settings.replicas -}}
{{- if .settings.autoscaling.enabled -}}
{{- $least = .settings.autoscaling.minReplicas -}}
{{- end -}}
{{- $single := or (kindIs "invalid" $least) (eq (toString $least) "1") -}}
{{- if and $single (eq (toString .root.Values.maxSurge) "0") }}1{{ else }}{{ .root.Values.maxSurge }}{{ end -}}
{{- end -}}

{{/* How long a replica takes to end, at most. */}}
{{- define "service.graceSeconds" -}}
{{- add .Values.shutdown.preStopSeconds .Values.shutdown.delaySeconds .Values.shutdown.timeoutSeconds 5 -}}
{{- end -}}

{{/* How long a new replica is ready before the next old one is told to end. */}}
{{- define "service.minReadySeconds" -}}
{{- if kindIs "string" .Values.minReadySeconds -}}
{{- include "service.graceSeconds" . -}}
{{- else -}}
{{- int .Values.minReadySeconds -}}
{{- end -}}
{{- end -}}

{{- define "service.connectionsPerReplica" -}}
{{- add .settings.database.maxOpenConns .root.Values.database.secondPoolConns -}}
{{- end -}}

{{/* What a server's max_connections leaves to roles that are no superusers: PostgreSQL keeps three (superuser_reserved_connections). */}}
{{- define "service.grantedConnections" -}}
{{- sub . 3 -}}
{{- end -}}

{{/* Fails when the replicas need more connections than there are. Takes a dict of needed, limit and where (the limit's name). */}}
{{- define "service.checkBudget" -}}
{{- $granted := include "service.grantedConnections" .limit | int -}}
{{- if gt (int .needed) $granted -}}
{{- fail (printf "the replicas may open %d connections, and %s=%d leaves %d, since PostgreSQL keeps three for superusers: lower replicas, autoscaling.maxReplicas, maxSurge or database.maxOpenConns, set minReadySeconds to auto, or raise the database's max_connections and %s with it" (int .needed) .where (int .limit) $granted .where) -}}
{{- end -}}
{{- end -}}
