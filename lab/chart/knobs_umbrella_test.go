package chart

import (
	"fmt"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/services"
)

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
dashboards: {enabled: true, grafanaOperator: {enabled: true}}
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
			{
				"dashboards.grafanaOperator.enabled", "GrafanaDashboard/rowlock-dashboard-iidy",
				"spec.instanceSelector.matchLabels.dashboards", "grafana",
			},
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
