package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/lab/internal/services"
)

// turn is the expected value at a path of an object, which the knobs change. The steps of a path are separated by dots;
// ~ stands for a dot inside one.
type turn struct {
	knobs, object, path string
	want                any
}

// scenario is one rendering with many values set.
type scenario struct {
	name, chart, values string
	turns               []turn
}

const (
	deployment = "Deployment/rowlock"
	scaler     = "HorizontalPodAutoscaler/rowlock"
	policies   = "NetworkPolicy/rowlock"
	pod        = "spec.template.spec."
	container  = "spec.template.spec.containers.0."
	spread     = "spec.template.spec.topologySpreadConstraints.0."
	ref        = ".valueFrom.secretKeyRef"
	byName     = "namespaceSelector.matchLabels.kubernetes~io/metadata~name"
	labelName  = "metadata.labels.app~kubernetes~io/name"
	url        = "postgres://?sslmode=disable&binary_parameters=yes"
	digest     = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	// other is the digest of a published chart's own image, which counts for no tag that is named.
	other = "sha256:fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
)

func scenarios() []scenario {
	return slices.Concat(serviceScenarios(), umbrellaScenarios())
}

func serviceScenarios() []scenario {
	return []scenario{{
		name: "a service with much of its own", chart: alone,
		values: `
name: tally
image: {registry: ghcr.io/me/, repository: counts, tag: "v9@` + digest + `", pullPolicy: Always}
imagePullSecrets: [{name: pull}]
commonLabels: {cost: low}
commonAnnotations: {owner: me}
database: {existingSecret: db, caSecret: tls, maxOpenConns: 5, pooler: transaction, parameters: sslmode=disable,
  keys: {host: h, port: p, name: db, user: u, password: s}}
migrations: {mode: job, existingSecret: owner}
networkPolicy: {enabled: false}
config: {LOG_LEVEL: debug, MAX_IN_FLIGHT: 7, MAX_BODY: 268435456}
secretEnv: {TOKEN: {existingSecret: tokens, key: t, optional: true}}
extraEnv: [{name: EXTRA, value: "$(PGHOST)"}]
extraVolumes: [{name: ca, secret: {secretName: ca}}]
extraVolumeMounts: [{name: ca, mountPath: /ca}]
replicas: 3
maxSurge: 50%
minReadySeconds: 4
podDisruptionBudget: {maxUnavailable: 10%}
resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 2Gi}}
service: {type: LoadBalancer, port: 8000, annotations: {a: b}, appProtocol: kubernetes.io/h2c,
  headless: {enabled: true}, ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6, IPv4]}
ingress: {enabled: true, className: nginx, annotations: {a: b}, tls: [{hosts: [tally.example], secretName: cert}],
  hosts: [{host: tally.example}, {host: "*.tally.example", paths: [{path: /api, pathType: Exact}, {path: /docs}]}]}
httpRoute: {enabled: true, annotations: {a: b}, parentRefs: [{name: public, namespace: gateways}],
  hostnames: [tally.example], rules: [{matches: [{path: {type: PathPrefix, value: /api}}], timeouts: {request: 9s}}]}
internalService: {enabled: true, port: 9999}
shutdown: {preStopSeconds: 7, delaySeconds: 11, timeoutSeconds: 13}
serviceAccount: {name: robot, annotations: {role: arn}}
topologySpread: {topologyKeys: [rack], whenUnsatisfiable: DoNotSchedule}
initContainers: [{name: proxy, image: proxy, restartPolicy: Always}]
sidecars: [{name: shipper, image: shipper}]
podLabels: {team: x}
podAnnotations: {note: why}
nodeSelector: {disk: ssd}
tolerations: [{key: k, operator: Exists}]
affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}
priorityClassName: high
dnsConfig: {searches: [db.example]}
startupProbe: {failureThreshold: 300}
livenessProbe: {timeoutSeconds: 9, initialDelaySeconds: 3}
readinessProbe: {periodSeconds: 6, successThreshold: 2}
extraObjects: [{apiVersion: v1, kind: Secret, metadata: {name: "{{ include \"service.fullname\" . }}-mine"}}]
hostAliases: [{ip: 10.0.0.5, hostnames: [db]}]
`,
		turns: []turn{
			{"name", deployment, labelName, "tally"},
			{"image.registry image.repository image.tag", deployment, container + "image", "ghcr.io/me/counts:v9@" + digest},
			{"image.tag", deployment, "metadata.labels.app~kubernetes~io/version", "v9"},
			{"image.tag", deployment, "spec.template.metadata.labels.app~kubernetes~io/version", "v9"},
			{"image.pullPolicy", deployment, container + "imagePullPolicy", "Always"},
			{"imagePullSecrets", deployment, pod + "imagePullSecrets", list{dict{"name": "pull"}}},
			{"database.existingSecret database.keys.host", deployment, container + "env.0", secretVar("PGHOST", "db", "h")},
			{"database.keys.port", deployment, container + "env.1", secretVar("PGPORT", "db", "p")},
			{"database.keys.name", deployment, container + "env.2", secretVar("PGDATABASE", "db", "db")},
			{"database.keys.user", deployment, container + "env.3", secretVar("PGUSER", "db", "u")},
			{"database.keys.password", deployment, container + "env.4", secretVar("PGPASSWORD", "db", "s")},
			{"database.parameters", deployment, container + "env.5.value", url},
			{"database.pooler", "ConfigMap/rowlock", "data.DB_POOLER", "transaction"},
			{"database.maxOpenConns", deployment, container + "env.6", dict{"name": "DB_MAX_OPEN_CONNS", "value": "5"}},
			{"secretEnv", deployment, container + "env.8" + ref, dict{"name": "tokens", "key": "t", "optional": true}},
			{"extraEnv", deployment, container + "env.9", dict{"name": "EXTRA", "value": "$(PGHOST)"}},
			{"migrations.mode", "ConfigMap/rowlock", "data.MIGRATE_ON_START", "false"},
			{"config", "ConfigMap/rowlock", "data.LOG_LEVEL", "debug"},
			{"config", "ConfigMap/rowlock", "data.MAX_IN_FLIGHT", "7"},
			{"config", "ConfigMap/rowlock", "data.MAX_BODY", "268435456"},
			{"database.caSecret", deployment, pod + "volumes.0.secret.secretName", "tls"},
			{"database.caSecret", deployment, container + "volumeMounts.0.mountPath", "/etc/database-ca"},
			{"extraVolumes", deployment, pod + "volumes.1", dict{"name": "ca", "secret": dict{"secretName": "ca"}}},
			{"extraVolumeMounts", deployment, container + "volumeMounts.1", dict{"name": "ca", "mountPath": "/ca"}},
			{"networkPolicy.enabled", policies, "kind", nil},
			{"replicas", deployment, "spec.replicas", 3},
			{"maxSurge", deployment, "spec.strategy.rollingUpdate.maxSurge", "50%"},
			{"minReadySeconds", deployment, "spec.minReadySeconds", 4},
			{"minReadySeconds", deployment, "spec.progressDeadlineSeconds", 604},
			{"podDisruptionBudget.maxUnavailable", "PodDisruptionBudget/rowlock", "spec.maxUnavailable", "10%"},
			{
				"resources", deployment, container + "resources",
				dict{"requests": dict{"cpu": 1, "memory": "1Gi"}, "limits": dict{"memory": "2Gi"}},
			},
			{"service.type", "Service/rowlock", "spec.type", "LoadBalancer"},
			{"service.port", "Service/rowlock", "spec.ports.0.port", 8000},
			{"service.annotations", "Service/rowlock", "metadata.annotations.a", "b"},
			{"service.appProtocol", "Service/rowlock", "spec.ports.0.appProtocol", "kubernetes.io/h2c"},
			{"service.headless.enabled", "Service/rowlock-headless", "spec.clusterIP", "None"},
			{"service.ipFamilyPolicy", "Service/rowlock", "spec.ipFamilyPolicy", "PreferDualStack"},
			{"service.ipFamilies", "Service/rowlock-internal", "spec.ipFamilies", list{"IPv6", "IPv4"}},
			{"ingress.enabled ingress.className", "Ingress/rowlock", "spec.ingressClassName", "nginx"},
			{"ingress.annotations", "Ingress/rowlock", "metadata.annotations.a", "b"},
			{"ingress.tls", "Ingress/rowlock", "spec.tls.0.secretName", "cert"},
			{"ingress.hosts", "Ingress/rowlock", "spec.rules.0.http.paths", list{path("/", "Prefix")}},
			{
				"ingress.hosts", "Ingress/rowlock", "spec.rules.1.http.paths", list{path("/api", "Exact"), path("/docs", "Prefix")},
			},
			{"httpRoute.enabled httpRoute.rules", "HTTPRoute/rowlock", "spec.rules", list{dict{
				"matches":     list{dict{"path": dict{"type": "PathPrefix", "value": "/api"}}},
				"timeouts":    dict{"request": "9s"},
				"backendRefs": list{dict{"name": "rowlock", "port": 8000}},
			}}},
			{"httpRoute.annotations", "HTTPRoute/rowlock", "metadata.annotations.a", "b"},
			{"httpRoute.parentRefs", "HTTPRoute/rowlock", "spec.parentRefs.0.namespace", "gateways"},
			{"httpRoute.hostnames", "HTTPRoute/rowlock", "spec.hostnames", list{"tally.example"}},
			{"internalService.enabled", "ConfigMap/rowlock", "data.INTERNAL_HTTP_ADDR", ":8081"},
			{"internalService.port", "Service/rowlock-internal", "spec.ports.0.port", 9999},
			{"shutdown.preStopSeconds", deployment, container + "lifecycle.preStop.sleep.seconds", 7},
			{"shutdown.delaySeconds", "ConfigMap/rowlock", "data.SHUTDOWN_DELAY", "11s"},
			{"shutdown.timeoutSeconds", "ConfigMap/rowlock", "data.SHUTDOWN_TIMEOUT", "13s"},
			{"shutdown.timeoutSeconds", deployment, pod + "terminationGracePeriodSeconds", 7 + 11 + 13 + 5},
			{"serviceAccount.name", "ServiceAccount/robot", "metadata.name", "robot"},
			{"serviceAccount.name", deployment, pod + "serviceAccountName", "robot"},
			{"serviceAccount.annotations", "ServiceAccount/robot", "metadata.annotations.role", "arn"},
			{"serviceAccount.annotations", "ServiceAccount/rowlock-migrate", "metadata.annotations.role", "arn"},
			{"topologySpread", deployment, spread + "topologyKey", "rack"},
			{"topologySpread", deployment, spread + "whenUnsatisfiable", "DoNotSchedule"},
			{"commonLabels", "Service/rowlock", "metadata.labels.cost", "low"},
			{"commonAnnotations", "Service/rowlock", "metadata.annotations.owner", "me"},
			{"podLabels", deployment, "spec.template.metadata.labels.team", "x"},
			{"podAnnotations", deployment, "spec.template.metadata.annotations.note", "why"},
			{"nodeSelector", deployment, pod + "nodeSelector", dict{"disk": "ssd"}},
			{"tolerations", deployment, pod + "tolerations", list{dict{"key": "k", "operator": "Exists"}}},
			{
				"affinity", deployment,
				pod + "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
				list{},
			},
			{"priorityClassName", deployment, pod + "priorityClassName", "high"},
			{"initContainers", deployment, pod + "initContainers.0.name", "proxy"},
			{"sidecars", deployment, pod + "containers.1.name", "shipper"},
			{"startupProbe", deployment, container + "startupProbe", probe("/livez", dict{
				"failureThreshold": 300, "periodSeconds": 1,
			})},
			{"livenessProbe", deployment, container + "livenessProbe", probe("/livez", dict{
				"timeoutSeconds": 9, "initialDelaySeconds": 3, "failureThreshold": 3, "periodSeconds": 10,
			})},
			{"readinessProbe", deployment, container + "readinessProbe", probe("/readyz", dict{
				"periodSeconds": 6, "successThreshold": 2, "failureThreshold": 2, "timeoutSeconds": 5,
			})},
			{"extraObjects", "Secret/rowlock-mine", "kind", "Secret"},
			{"dnsConfig", deployment, pod + "dnsConfig", dict{"searches": list{"db.example"}}},
			{"hostAliases", deployment, pod + "hostAliases", list{dict{"ip": "10.0.0.5", "hostnames": list{"db"}}}},
		},
	}, {
		name: "a service whose secret has a whole URI", chart: alone,
		values: `
image: {repository: counts, digest: "` + digest + `"}
database: {existingSecret: cnpg, keys: {uri: uri}, parameters: sslmode=require}
global: {database: {parameters: sslmode=disable},
  auth: {rules: [{subjects: ["*"], services: [counts], allow: [read]}]}}
autoscaling: {enabled: true, minReplicas: 3, maxReplicas: 4, targetCPUAverageValue: 55m,
  metrics: [{type: Resource, resource: {name: memory, target: {type: Utilization, averageUtilization: 80}}}],
  behavior: {scaleDown: {stabilizationWindowSeconds: 15}}}
podDisruptionBudget: {enabled: false}
serviceAccount: {create: false}
workloads: {serve: {database: {maxOpenConns: 5}},
  work: {replicas: 1, autoscaling: {enabled: false}, resources: {limits: {memory: 9Mi}}}}
serviceMonitor: {enabled: true, labels: {prom: one}, interval: 7s, scrapeTimeout: 6s,
  relabelings: [{targetLabel: a, replacement: b}], metricRelabelings: [{regex: "go_.*", action: labeldrop}]}
networkPolicy: {databasePorts: [6432], from: [{podSelector: {matchLabels: {a: b}}}],
  adminFrom: [{namespaceSelector: {}}], dnsTo: [{ipBlock: {cidr: 10.0.0.10/32}}],
  databaseTo: [{ipBlock: {cidr: 10.0.0.5/32}}], otlpTo: [{podSelector: {matchLabels: {app: collector}}}],
  apiServerTo: [{ipBlock: {cidr: 10.0.0.1/32}}], apiServerPorts: [8443],
  egress: [{ports: [{port: 443}]}], internalFrom: [{podSelector: {matchLabels: {c: d}}}]}
auth: {enabled: true}
config: {OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://collector:4318"}
migrations: {mode: init, existingSecret: owner, resources: {limits: {memory: 8Mi}}}
initContainers: [{name: proxy, image: proxy}]
extraEnv: [{name: EXTRA, value: more}]
internalService: {enabled: true}
spool: {enabled: true, maxMiB: 300}
`,
		turns: []turn{
			{"image.digest", deployment, container + "image", "counts:0.1.0@" + digest},
			{"initContainers", deployment, pod + "initContainers.0.name", "proxy"},
			{"image.digest", deployment, pod + "initContainers.1.image", "counts:0.1.0@" + digest},
			{"database.keys.uri", deployment, container + "env.0", secretVar("DATABASE_URI", "cnpg", "uri")},
			{
				"database.parameters", deployment, container + "env.1",
				dict{"name": "DATABASE_URL", "value": "$(DATABASE_URI)?sslmode=require"},
			},
			{"autoscaling.minReplicas", scaler, "spec.minReplicas", 3},
			{"autoscaling.maxReplicas", scaler, "spec.maxReplicas", 4},
			{"autoscaling.enabled", scaler, "kind", "HorizontalPodAutoscaler"},
			{"autoscaling.targetCPUAverageValue", scaler, "spec.metrics.0.resource.target.averageValue", "55m"},
			{"autoscaling.metrics", scaler, "spec.metrics.1.resource.name", "memory"},
			{"autoscaling.behavior", scaler, "spec.behavior.scaleDown.stabilizationWindowSeconds", 15},
			{"podDisruptionBudget.enabled", "PodDisruptionBudget/rowlock", "kind", nil},
			{"serviceAccount.create", "ServiceAccount/rowlock", "kind", nil},
			{"serviceAccount.create", deployment, pod + "serviceAccountName", "default"},
			{"workloads", deployment, container + "env.2.value", "5"},
			{"workloads", "Deployment/rowlock-work", "spec.replicas", 1},
			{"workloads", "Deployment/rowlock-work", container + "args", list{"work"}},
			{"workloads", "Deployment/rowlock-work", container + "resources.limits.memory", "9Mi"},
			{"serviceMonitor.enabled", "Service/rowlock-metrics", "spec.clusterIP", "None"},
			{"serviceMonitor.labels", "ServiceMonitor/rowlock", "metadata.labels.prom", "one"},
			{"serviceMonitor.interval", "ServiceMonitor/rowlock", "spec.endpoints.0.interval", "7s"},
			{"serviceMonitor.scrapeTimeout", "ServiceMonitor/rowlock", "spec.endpoints.0.scrapeTimeout", "6s"},
			{"serviceMonitor.relabelings", "ServiceMonitor/rowlock", "spec.endpoints.0.relabelings.0.targetLabel", "a"},
			{
				"serviceMonitor.metricRelabelings", "ServiceMonitor/rowlock",
				"spec.endpoints.0.metricRelabelings.0.regex", "go_.*",
			},
			{"migrations.mode", deployment, pod + "initContainers.1.args", list{"migrate"}},
			{
				"migrations.existingSecret", deployment, pod + "initContainers.1.env.0", secretVar("DATABASE_URI", "owner", "uri"),
			},
			{"migrations.resources", deployment, pod + "initContainers.1.resources.limits", dict{"memory": "8Mi"}},
			{"extraEnv", deployment, pod + "initContainers.1.env.2.value", "more"},
			{"networkPolicy.from", policies, "spec.ingress.0.from.0.podSelector.matchLabels", dict{"a": "b"}},
			{"networkPolicy.internalFrom", policies, "spec.ingress.1.from.0.podSelector.matchLabels", dict{"c": "d"}},
			{"networkPolicy.adminFrom", policies, "spec.ingress.2.from", list{dict{"namespaceSelector": dict{}}}},
			{"networkPolicy.dnsTo", policies, "spec.egress.0.to", list{dict{"ipBlock": dict{"cidr": "10.0.0.10/32"}}}},
			{"networkPolicy.databasePorts", policies, "spec.egress.1.ports", list{dict{"port": 6432, "protocol": "TCP"}}},
			{"networkPolicy.databaseTo", policies, "spec.egress.1.to", list{dict{"ipBlock": dict{"cidr": "10.0.0.5/32"}}}},
			{"networkPolicy.otlpTo", policies, "spec.egress.2.to.0.podSelector.matchLabels.app", "collector"},
			{"networkPolicy.apiServerTo", policies, "spec.egress.3.to", list{dict{"ipBlock": dict{"cidr": "10.0.0.1/32"}}}},
			{"networkPolicy.apiServerPorts", policies, "spec.egress.3.ports", list{dict{"port": 8443, "protocol": "TCP"}}},
			{"networkPolicy.egress", policies, "spec.egress.4.ports.0.port", 443},
			{"auth.enabled", deployment, container + "env.3", dict{"name": "AUTH", "value": "token"}},
			{"spool.enabled", deployment, container + "volumeMounts.0", dict{"mountPath": "/tmp", "name": "spool"}},
			{"spool.maxMiB", "ConfigMap/rowlock", "data.SPOOL_MAX", "300MiB"},
		},
	}, {
		name: "callers of another namespace, and a password in a file", chart: alone,
		values: `
fullnameOverride: other
networkPolicy: {clientNamespaces: [shop]}
database: {passwordFile: true, keys: {password: s}}
`,
		turns: []turn{
			{"fullnameOverride", "Deployment/other", "metadata.name", "other"},
			{"networkPolicy.clientNamespaces", "NetworkPolicy/other", "spec.ingress.0.from.1", dict{
				"podSelector":       dict{"matchLabels": dict{"rowlock.dev/client": "true"}},
				"namespaceSelector": dict{"matchLabels": dict{"kubernetes.io/metadata.name": "shop"}},
			}},
			{
				"database.passwordFile", "Deployment/other", pod + "volumes.0.secret.items",
				list{dict{"key": "s", "path": "password"}},
			},
		},
	}}
}

// ofEach returns turns of every service.
func ofEach(turns func(name, deployment string) []turn) (all []turn) {
	for _, name := range services.Names() {
		all = append(all, turns(name, deployment+"-"+name)...)
	}
	return all
}

// valuesOfEach returns a line of values for every service, whose format gets its name and the first letter of that.
func valuesOfEach(format string) string {
	var values strings.Builder
	for _, name := range services.Names() {
		_, _ = fmt.Fprintf(&values, format+"\n", name, name[:1])
	}
	return values.String()
}

func umbrellaScenarios() []scenario {
	alike := ofEach(func(name, deployment string) []turn {
		return []turn{
			{name + ".name", deployment, labelName, name[:1]},
			{name + ".image.repository", deployment, container + "image", "ghcr.io/you/" + name[:1] + ":1.2"},
			{name + ".database.existingSecret", deployment, container + "env.0" + ref + ".name", name[:1]},
		}
	})
	none := ofEach(func(name, deployment string) []turn { return []turn{{name + ".enabled", deployment, "kind", nil}} })
	return []scenario{{
		name: "a check with a digest", chart: umbrella, values: `test: {image: {digest: "` + digest + `"}}`,
		turns: []turn{
			{"test.image.digest", "Pod/rowlock-check", "spec.containers.0.image", "rowlock/lab:0.1.0@" + digest},
		},
	}, {
		name: "passwords in files", chart: umbrella, values: "global: {database: {passwordFile: true}}",
		turns: []turn{
			{"global.database.passwordFile", "Deployment/rowlock-counts", pod + "volumes.0.name", "database-password"},
		},
	}, {
		name: "all services alike", chart: umbrella,
		values: `
global:
  image: {registry: ghcr.io/you, tag: "1.2"}
  imagePullSecrets: [{name: pull}]
  database: {parameters: sslmode=disable, pooler: transaction, maxConnections: 1000, caSecret: tls}
  migrations: {mode: init}
  auth: {enabled: true, issuer: "https://issuer.example/id", publicIssuer: true, audience: us, existingConfigMap: mine}
  networkPolicy: {enabled: false}
  service: {ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv4, IPv6]}
  serviceMonitor: {enabled: true, labels: {release: prometheus}, interval: 15s, scrapeTimeout: 5s,
    relabelings: [{targetLabel: a, replacement: b}], metricRelabelings: [{regex: "go_.*", action: labeldrop}]}
prometheusRule: {enabled: true, labels: {r: s}}
extraObjects: [{apiVersion: v1, kind: Secret, metadata: {name: "{{ .Release.Name }}-mine"}}]
test: {image: {registry: registry.example, repository: my/lab, digest: "` + other + `", tag: "3@` + digest + `"},
  resources: {requests: {cpu: 1}}, podLabels: {team: x}, podAnnotations: {note: why, helm.sh/hook: none},
  extraEnv: [{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: http://otel:4317}],
  nodeSelector: {disk: ssd}, tolerations: [{key: k, operator: Exists}], affinity: {podAffinity: {}}}
` + valuesOfEach("%[1]s: {name: %[2]s, database: {existingSecret: %[2]s}, "+
			"image: {repository: %[2]s, digest: '"+other+"'}}"),
		turns: append(alike, []turn{
			{"global.image.registry", "Deployment/rowlock-iidy", container + "image", "ghcr.io/you/i:1.2"},
			{"global.image.tag", "Deployment/rowlock-pyggpot", container + "image", "ghcr.io/you/p:1.2"},
			{"test.image.repository", "Pod/rowlock-check", "spec.containers.0.image", "registry.example/my/lab:3@" + digest},
			{
				"test.image.registry test.image.tag", "Pod/rowlock-check", "spec.containers.0.image",
				"registry.example/my/lab:3@" + digest,
			},
			{"test.resources", "Pod/rowlock-check", "spec.containers.0.resources.requests.cpu", 1},
			{"test.podLabels", "Pod/rowlock-check", "metadata.labels.team", "x"},
			{"test.podAnnotations", "Pod/rowlock-check", "metadata.annotations.note", "why"},
			{"test.nodeSelector", "Pod/rowlock-check", "spec.nodeSelector", dict{"disk": "ssd"}},
			{"test.tolerations", "Pod/rowlock-check", "spec.tolerations", list{dict{"key": "k", "operator": "Exists"}}},
			{"test.affinity", "Pod/rowlock-check", "spec.affinity", dict{"podAffinity": dict{}}},
			{"test.extraEnv", "Pod/rowlock-check", "spec.containers.0.env.0.value", "http://otel:4317"},
			{"global.imagePullSecrets", "Deployment/rowlock-counts", pod + "imagePullSecrets", list{dict{"name": "pull"}}},
			{"global.imagePullSecrets", "Pod/rowlock-check", "spec.imagePullSecrets", list{dict{"name": "pull"}}},
			{"global.database.parameters", "Deployment/rowlock-pyggpot", container + "env.5.value", url},
			{"global.database.pooler", "ConfigMap/rowlock-events", "data.DB_POOLER", "transaction"},
			{"global.database.caSecret", "Deployment/rowlock-counts", pod + "volumes.0.secret.secretName", "tls"},
			{"global.migrations.mode", "Deployment/rowlock-iidy", pod + "initContainers.0.env.0" + ref + ".name", "i-owner"},
			{"global.auth.enabled", "Deployment/rowlock-iidy", container + "env.7.value", "token"},
			{"global.auth.issuer", "Deployment/rowlock-iidy", container + "env.8.value", "https://issuer.example/id"},
			{"global.auth.audience", "Deployment/rowlock-iidy", container + "env.9.value", "us"},
			{
				"global.auth.audience", "Pod/rowlock-check",
				"spec.volumes.0.projected.sources.0.serviceAccountToken.audience", "us",
			},
			{"global.auth.existingConfigMap", "Deployment/rowlock-counts", pod + "volumes.1.configMap.name", "mine"},
			{"global.networkPolicy.enabled", "NetworkPolicy/rowlock-counts", "kind", nil},
			{"global.serviceMonitor.enabled", "ServiceMonitor/rowlock-events", "spec.endpoints.0.port", "admin"},
			{"global.serviceMonitor.labels", "ServiceMonitor/rowlock-counts", "metadata.labels.release", "prometheus"},
			{"extraObjects", "Secret/rowlock-mine", "kind", "Secret"},
			{"global.serviceMonitor.interval", "ServiceMonitor/rowlock-iidy", "spec.endpoints.0.interval", "15s"},
			{"global.serviceMonitor.scrapeTimeout", "ServiceMonitor/rowlock-iidy", "spec.endpoints.0.scrapeTimeout", "5s"},
			{
				"global.serviceMonitor.relabelings", "ServiceMonitor/rowlock-iidy",
				"spec.endpoints.0.relabelings.0.targetLabel", "a",
			},
			{
				"global.serviceMonitor.metricRelabelings", "ServiceMonitor/rowlock-iidy",
				"spec.endpoints.0.metricRelabelings.0.action", "labeldrop",
			},
			{"global.service.ipFamilyPolicy", "Service/rowlock-pyggpot-headless", "spec.ipFamilyPolicy", "RequireDualStack"},
			{"global.service.ipFamilies", "Service/rowlock-counts-metrics", "spec.ipFamilies", list{"IPv4", "IPv6"}},
			{"prometheusRule.enabled", "PrometheusRule/rowlock", "kind", "PrometheusRule"},
			{"prometheusRule.labels", "PrometheusRule/rowlock", "metadata.labels.r", "s"},
		}...),
	}, {
		name: "policies of all services", chart: umbrella,
		values: `
global:
  auth: {enabled: true, existingConfigMap: mine}
  networkPolicy: {clientNamespaces: [shop], adminFrom: [], dnsTo: [{ipBlock: {cidr: 10.0.0.10/32}}],
    databaseTo: [{ipBlock: {cidr: 10.0.0.5/32}}], databasePorts: [6432], otlpTo: [{podSelector: {}}],
    apiServerTo: [{ipBlock: {cidr: 10.0.0.1/32}}], apiServerPorts: [8443], egress: [{ports: [{port: 443}]}]}
counts: {config: {OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4317"}}
iidy: {networkPolicy: {databasePorts: [3306], clientNamespaces: [desk], apiServerTo: []}}
events: {networkPolicy: {from: [{podSelector: {}}]}}
pyggpot: {networkPolicy: {adminFrom: [{podSelector: {}}]}}
`,
		turns: []turn{
			{"global.networkPolicy.clientNamespaces", policies + "-pyggpot", "spec.ingress.0.from.1." + byName, "shop"},
			{"networkPolicy", policies + "-iidy", "spec.ingress.0.from.1." + byName, "desk"},
			{"networkPolicy", policies + "-events", "spec.ingress.0.from", list{dict{"podSelector": dict{}}}},
			{"global.networkPolicy.adminFrom", policies + "-counts", "spec.ingress.2", nil},
			{"networkPolicy", policies + "-pyggpot", "spec.ingress.1.from", list{dict{"podSelector": dict{}}}},
			{"global.networkPolicy.dnsTo", policies + "-events", "spec.egress.0.to.0.ipBlock.cidr", "10.0.0.10/32"},
			{"global.networkPolicy.databaseTo", policies + "-iidy", "spec.egress.1.to.0.ipBlock.cidr", "10.0.0.5/32"},
			{"global.networkPolicy.databasePorts", policies + "-counts", "spec.egress.1.ports.0.port", 6432},
			{"networkPolicy", policies + "-iidy", "spec.egress.1.ports.0.port", 3306},
			{"global.networkPolicy.otlpTo", policies + "-counts", "spec.egress.2.to", list{dict{"podSelector": dict{}}}},
			{"global.networkPolicy.apiServerTo", policies + "-events", "spec.egress.2.to.0.ipBlock.cidr", "10.0.0.1/32"},
			{"global.networkPolicy.apiServerPorts", policies + "-events", "spec.egress.2.ports.0.port", 8443},
			{"global.networkPolicy.egress", policies + "-events", "spec.egress.3.ports.0.port", 443},
			{"networkPolicy", policies + "-iidy", "spec.egress.2.ports.0.port", 443}, // no way to the API server
		},
	}, {
		name: "no service and no test", chart: umbrella,
		values: "test: {enabled: false}\n" + valuesOfEach("%[1]s: {enabled: false}"),
		turns:  append(none, turn{"test.enabled", "Pod/rowlock-check", "kind", nil}),
	}}
}

// probe adds to settings of a probe where it looks.
func probe(path string, settings dict) dict {
	settings["httpGet"] = dict{"path": path, "port": "admin"}
	return settings
}

// path returns a path of an Ingress, which leads to the API's port.
func path(path, kind string) dict {
	backend := dict{"service": dict{"name": "rowlock", "port": dict{"name": "http"}}}
	return dict{"path": path, "pathType": kind, "backend": backend}
}

func secretVar(name, secret, key string) dict {
	return dict{"name": name, "valueFrom": dict{"secretKeyRef": dict{"name": secret, "key": key}}}
}

// Each value changes what it is for, which differs by default.
func TestKnobs(t *testing.T) {
	t.Parallel()
	plain := map[string]objects{alone: renderAlike(t, alone, ""), umbrella: renderAlike(t, umbrella, "")}
	for _, s := range scenarios() {
		got := renderAlike(t, s.chart, s.values)
		for _, turn := range s.turns {
			want := string(raw(t, turn.want))
			if value := string(raw(t, at(got[turn.object].plain, turn.path))); value != want {
				t.Errorf("%s: %s: %s has %s at %s, want %s", s.name, turn.knobs, turn.object, value, turn.path, want)
			}
			before := string(raw(t, at(plain[s.chart][turn.object].plain, turn.path)))
			if before == want && !strings.HasSuffix(turn.knobs, "database.existingSecret") { // without one there is no default
				t.Errorf("%s: %s: %s has %s at %s by default too: the test turns nothing", s.name, turn.knobs, turn.object, want,
					turn.path)
			}
		}
	}
}

// Every value is set by a test. What the umbrella's values say of a service are values of its chart, set there.
func TestEveryKnobIsTurned(t *testing.T) {
	t.Parallel()
	knobs := map[string][]string{
		// These are set in other files, whose tests look at more than a field.
		alone: {
			"database.secondPoolConns", "database.maxConnections", "global", "enabled",
			"requiredSecrets", "database.clientCertSecret", "migrations.clientCertSecret", "migrations.job",
			"podSecurityContext.fsGroup",
		},
		umbrella: {
			"global.auth.rules", "global.auth.publicIssuer",
			"global.networkPolicy.from", "global.networkPolicy.internalFrom", // as databaseTo
			"global.commonLabels", "global.commonAnnotations", "global.podLabels", "global.podAnnotations",
			"global.config", "global.secretEnv",
			"global.nodeSelector", "global.tolerations", "global.affinity", "global.topologySpread",
			"global.priorityClassName", "global.dnsConfig", "global.hostAliases",
			"prometheusRule.disabled", "prometheusRule.overrides", "prometheusRule.runbookUrl",
			"prometheusRule.additionalRuleLabels",
			"global.database.maxConnections", "dashboards.enabled", "dashboards.labels", "dashboards.annotations",
		},
	}
	for _, s := range scenarios() {
		for _, turn := range s.turns {
			knobs[s.chart] = append(knobs[s.chart], strings.Fields(turn.knobs)...)
		}
	}
	for _, chart := range []string{alone, umbrella} {
		keys := keysOf(t, chart)
		if len(keys) < 30 {
			t.Errorf("%s has %d keys", chart, len(keys))
		}
		for _, key := range keys {
			of, path := chart, key.Path
			if chart == umbrella && !itsOwn(key) {
				_, path, _ = strings.Cut(path, ".")
				of = alone
			}
			turned := slices.ContainsFunc(knobs[of], func(knob string) bool {
				return path == knob || strings.HasPrefix(path, knob+".")
			})
			if !turned && key.Default != "" {
				t.Errorf("%s: no test turns %s", chart, key.Path)
			}
		}
	}
}
