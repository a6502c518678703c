{{/*
The connections that the replicas of a service open at most, while a new version rolls out at the top of the autoscaler's range.
A replica that is just ending is not counted. It opens none, but keeps what it has until it has drained: what is left beside the sum is for those.
*/}}
{{- define "service.connections" -}}
{{- $sum := 0 -}}
{{- range $name, $workload := include "service.workloads" . | fromJson -}}
{{- $sum = add $sum (mul (include "service.peak" (dict "root" $ "settings" $workload)) (include "service.connectionsPerReplica" (dict "root" $ "settings" $workload))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Replicas of a workload at most: wanted and surge. */}}
{{- define "service.peak" -}}
{{- $most := int .settings.replicas -}}
{{- if .settings.autoscaling.enabled -}}
{{- $most = int .settings.autoscaling.maxReplicas -}}
{{- end -}}
{{- $surge := toString .root.Values.maxSurge -}}
{{- if hasSuffix "%" $surge -}}
{{- add $most (ceil (divf (mulf $most (trimSuffix "%" $surge)) 100)) -}}
{{- else -}}
{{- add $most $surge -}}
{{- end -}}
{{- end -}}

{{- define "service.connectionsPerReplica" -}}
{{- $n := int .settings.database.maxOpenConns -}}
{{- with .root.Values.database.secondPool -}}
{{- if .enabled -}}
{{- $n = sub (mul 2 $n) (int .smallerBy) -}}
{{- end -}}
{{- end -}}
{{- $n -}}
{{- end -}}

{{/* Fails when the replicas need more connections than there are. Takes a dict of needed, limit and where (the limit's name). */}}
{{- define "service.checkBudget" -}}
{{- if gt (int .needed) (int .limit) -}}
{{- fail (printf "the replicas may open %d connections, and %s says that there are %d: lower maxReplicas or database.maxOpenConns, or raise the database's max_connections and %s with it" (int .needed) .where (int .limit) .where) -}}
{{- end -}}
{{- end -}}
