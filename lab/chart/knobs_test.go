package chart

import (
	"slices"
	"strings"
	"testing"
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
extraEnvFrom: [{secretRef: {name: more}}]
revisionHistoryLimit: 2
networkPolicy: {enabled: false}
config: {LOG_LEVEL: debug, MAX_IN_FLIGHT: 7, MAX_BODY: 268435456}
secretEnv: {TOKEN: {existingSecret: tokens, key: t, optional: true}}
extraEnv: [{name: EXTRA, value: "$(PGHOST)"}]
extraVolumes: [{name: ca, secret: {secretName: ca}}]
extraVolumeMounts: [{name: ca, mountPath: /ca}]
autoscaling: {enabled: false}
replicas: 3
maxSurge: 50%
minReadySeconds: 4
podDisruptionBudget: {maxUnavailable: 10%}
resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 2Gi}}
service: {type: LoadBalancer, port: 8000, annotations: {a: b}, appProtocol: kubernetes.io/h2c,
  loadBalancerClass: example.com/internal, loadBalancerSourceRanges: [192.0.2.0/24], externalTrafficPolicy: Local,
  trafficDistribution: PreferSameZone,
  headless: {enabled: true}, ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6, IPv4]}
ingress: {enabled: true, className: nginx, annotations: {a: b}, tls: [{hosts: [tally.example], secretName: cert}],
  hosts: [{host: tally.example}, {host: "*.tally.example", paths: [{path: /api, pathType: Exact}, {path: /docs}]}]}
httpRoute: {enabled: true, annotations: {a: b}, parentRefs: [{name: public, namespace: gateways}],
  hostnames: [tally.example], rules: [{matches: [{path: {type: PathPrefix, value: /api}}], timeouts: {request: 9s}},
    {filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]}]}
grpcRoute: {enabled: true, annotations: {a: b}, parentRefs: [{name: mesh}], hostnames: [grpc.example],
  rules: [{matches: [{method: {service: Pots}}]}]}
internalService: {enabled: true, port: 9999}
shutdown: {preStopSeconds: 7, delaySeconds: 11, timeoutSeconds: 13}
serviceAccount: {name: robot, annotations: {role: arn}}
topologySpread: {topologyKeys: [rack], whenUnsatisfiableOf: {rack: DoNotSchedule}}
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
			{"extraEnvFrom", deployment, container + "envFrom.0.secretRef.name", "more"},
			{"extraEnvFrom", deployment, container + "envFrom.1.configMapRef.name", "rowlock"},
			{"revisionHistoryLimit", deployment, "spec.revisionHistoryLimit", 2},
			{"migrations.mode", "ConfigMap/rowlock", "data.MIGRATE_ON_START", "false"},
			{"config", "ConfigMap/rowlock", "data.LOG_LEVEL", "debug"},
			{"config", "ConfigMap/rowlock", "data.MAX_IN_FLIGHT", "7"},
			{"config", "ConfigMap/rowlock", "data.MAX_BODY", "268435456"},
			{"database.caSecret", deployment, pod + "volumes.0.secret.secretName", "tls"},
			{"database.caSecret", deployment, container + "volumeMounts.0.mountPath", "/etc/database-ca"},
			{"extraVolumes", deployment, pod + "volumes.1", dict{"name": "ca", "secret": dict{"secretName": "ca"}}},
			{"extraVolumeMounts", deployment, container + "volumeMounts.1", dict{"name": "ca", "mountPath": "/ca"}},
			{"networkPolicy.enabled", policies, "kind", nil},
			{"autoscaling.enabled", scaler, "kind", nil},
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
			{"service.loadBalancerClass", "Service/rowlock", "spec.loadBalancerClass", "example.com/internal"},
			{"service.loadBalancerSourceRanges", "Service/rowlock", "spec.loadBalancerSourceRanges", list{"192.0.2.0/24"}},
			{"service.externalTrafficPolicy", "Service/rowlock", "spec.externalTrafficPolicy", "Local"},
			{"service.trafficDistribution", "Service/rowlock", "spec.trafficDistribution", "PreferSameZone"},
			{"service.trafficDistribution", "Service/rowlock-internal", "spec.trafficDistribution", "PreferSameZone"},
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
			}, dict{
				"filters": list{dict{"type": "RequestRedirect", "requestRedirect": dict{"scheme": "https"}}},
			}}},
			{"httpRoute.annotations", "HTTPRoute/rowlock", "metadata.annotations.a", "b"},
			{"httpRoute.parentRefs", "HTTPRoute/rowlock", "spec.parentRefs.0.namespace", "gateways"},
			{"httpRoute.hostnames", "HTTPRoute/rowlock", "spec.hostnames", list{"tally.example"}},
			{"grpcRoute.enabled grpcRoute.rules", "GRPCRoute/rowlock", "spec.rules", list{dict{
				"matches":     list{dict{"method": dict{"service": "Pots"}}},
				"backendRefs": list{dict{"name": "rowlock", "port": 8000}},
			}}},
			{"grpcRoute.annotations", "GRPCRoute/rowlock", "metadata.annotations.a", "b"},
			{"grpcRoute.parentRefs", "GRPCRoute/rowlock", "spec.parentRefs.0.name", "mesh"},
			{"grpcRoute.hostnames", "GRPCRoute/rowlock", "spec.hostnames", list{"grpc.example"}},
			{"internalService.enabled", "ConfigMap/rowlock", "data.INTERNAL_HTTP_ADDR", ":8081"},
			{"internalService.port", "Service/rowlock-internal", "spec.ports.0.port", 9999},
			{"internalService.enabled", "Service/rowlock-internal", "spec.ports.0.appProtocol", "http"},
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
strategy: Recreate
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
			{"strategy", deployment, "spec.strategy", dict{"type": "Recreate"}},
			{"initContainers", deployment, pod + "initContainers.0.name", "proxy"},
			{"image.digest", deployment, pod + "initContainers.1.image", "counts:0.1.0@" + digest},
			{"database.keys.uri", deployment, container + "env.0", secretVar("DATABASE_URI", "cnpg", "uri")},
			{
				"database.parameters", deployment, container + "env.1",
				dict{"name": "DATABASE_URL", "value": "$(DATABASE_URI)?sslmode=require"},
			},
			{"autoscaling.minReplicas", scaler, "spec.minReplicas", 3},
			{"autoscaling.maxReplicas", scaler, "spec.maxReplicas", 4},
			{"autoscaling.targetCPUAverageValue", scaler, "spec.metrics.0.containerResource.target.averageValue", "55m"},
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
			{"serviceMonitor.enabled", "ServiceMonitor/rowlock", "spec.scrapeClassicHistograms", true},
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
			{"spool.maxMiB", deployment, pod + "volumes.0.emptyDir.sizeLimit", "364Mi"},
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
			"dashboards.grafanaOperator.instanceSelector", "prometheusRule.objective",
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
