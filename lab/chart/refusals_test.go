package chart

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
)

// wantRefused demands that a chart with these values is refused, with the sentence.
func wantRefused(t *testing.T, chart, values, want string) {
	t.Helper()
	if _, err := template(t, helm4, chart, values); err == nil {
		t.Errorf("%s is accepted", values)
	} else if !strings.Contains(err.Error(), want) {
		t.Errorf("%s is refused by %v, want %s", values, err, want)
	}
}

// The schemas refuse wrong values with the name of the value, by either Helm. One rendering names all of them.
func TestTheSchemaRefuses(t *testing.T) {
	t.Parallel()
	for _, wrong := range [][][2]string{
		{
			{`bogus=1`, `at '/bogus': got number, want object`},
			{`count.replicas=3`, `at '/count': missing properties 'database', 'enabled', 'image'`},
			{`counts.replica=3`, `additional properties 'replica' not allowed`},
			{`counts.image.tga="x"`, `at '/image': additional properties 'tga' not allowed`},
			{`iidy.imagePullSecrets=["pull"]`, `at '/imagePullSecrets/0': got string, want object`},
			{`iidy.podLabels.app\.kubernetes\.io/name="x"`, `at '/podLabels/app.kubernetes.io~1name': got string, want null`},
			{`dashboards.labels.helm\.sh/chart="x"`, `at '/dashboards/labels/helm.sh~1chart': got string, want null`},
			{`counts.replicas="three"`, `at '/replicas': got string, want null or integer`},
			{`counts.autoscaling.targetCPUAverageValue="70%"`, `at '/autoscaling/targetCPUAverageValue': '70%' does not match`},
			{`iidy.autoscaling.metrics=[{"resource": {"name": "cpu"}}]`, `at '/autoscaling/metrics/0': missing property 'type'`},
			{`events.replicas=-1`, `at '/replicas': minimum: got -1, want 0`},
			{`iidy.replicas=1000000`, `at '/replicas': maximum: got`},
			{`counts.maxSurge=-1`, `at '/maxSurge': minimum: got -1, want 0`},
			{`events.maxSurge=1.5`, `at '/maxSurge': got number, want integer or string`},
			{`iidy.maxSurge=1000000`, `at '/maxSurge': maximum: got`},
			{`payments.maxSurge=null`, `missing property 'maxSurge'`},
			{`payments.strategy="OnDelete"`, `at '/strategy': value must be one of`},
			{`counts.podDisruptionBudget.maxUnavailable="0%"`, `at '/podDisruptionBudget/maxUnavailable': '0%' does not`},
			{`counts.database.pooler="session"`, `at '/database/pooler': value must be one of '', 'none', 'transaction'`},
			{`counts.database.parameters="?sslmode=require"`, `at '/database/parameters'`},
			{`counts.database.password="secret"`, `additional properties 'password' not allowed`},
			{`counts.database.maxOpenConns=0`, `at '/database/maxOpenConns': minimum: got 0, want 1`},
			{`counts.migrations.mode="none"`, `at '/migrations/mode': value must be one of '', 'startup', 'init', 'job'`},
			{`events.migrations.uriKey="uri"`, `at '/migrations': additional properties 'uriKey' not allowed`},
			{`payments.database.passwordFile="yes"`, `at '/database/passwordFile': value must be one of`},
			{`counts.config.log_level="debug"`, `at '/config': additional properties 'log_level' not allowed`},
			{`counts.secretEnv.X.existingSecret="a"`, `at '/secretEnv/X': missing property 'key'`},
			{`counts.secretEnv.Y.key="b"`, `at '/secretEnv/Y': missing property 'existingSecret'`},
			{`payments.requiredSecrets.FINGERPRINT_SECRET=true`, `at '/requiredSecrets/FINGERPRINT_SECRET': got boolean`},
			{`counts.extraEnv=[{"value": "a"}]`, `at '/extraEnv/0': missing property 'name'`},
			{`counts.autoscaling.behavior.scaleUpp={}`, `additional properties 'scaleUpp' not allowed`},
			{`counts.livenessProbe.path="/"`, `at '/livenessProbe': additional properties 'path' not allowed`},
			{`events.extraObjects=[{"kind": "Secret"}]`, `at '/extraObjects/0': missing properties 'apiVersion', 'metadata'`},
			{`counts.workloads.work.replicas=1`, `at '/counts/workloads': additional properties 'work' not allowed`},
			{`events.workloads.worker={}`, `at '/workloads': additional properties 'worker' not allowed`},
			{`counts.workloads.serve.args=[]`, `additional properties 'args' not allowed`},
			{`counts.shutdown.preStopSeconds=0`, `at '/shutdown/preStopSeconds': minimum: got 0, want 1`},
			{`counts.service.type="ExternalName"`, `at '/service/type'`},
			{`counts.service.ipFamilies=["IPv4","IPv4"]`, `at '/service/ipFamilies': items at 0 and 1 are equal`},
			{`iidy.ingress.hosts=[{"name":"a"}]`, `at '/ingress/hosts/0'`},
			{
				`iidy.httpRoute.rules=[{"backendRefs":[]}]`,
				`at '/httpRoute/rules/0': additional properties 'backendRefs' not allowed`,
			},
			{`global.service.ipFamilyPolicy="Dual"`, `at '/global/service/ipFamilyPolicy': value must be one of`},
			{`prometheusRule.overrides.RowlockSlow={"severity":"info"}`, `additional properties 'severity' not allowed`},
			{`prometheusRule.objective=0.9`, `at '/prometheusRule/objective': minimum: got 0.9, want 0.95`},
			{`dashboards.grafanaOperator.instanceSelector.labels={}`, `additional properties 'labels' not allowed`},
			{`test.resources.request={}`, `at '/test/resources': additional properties 'request' not allowed`},
			{`counts.serviceMonitor.enabled="yes sir"`, `at '/serviceMonitor/enabled': value must be one of`},
			{`global.networkPolicy.databasePorts=null`, `at '/global/networkPolicy': missing property 'databasePorts'`},
			{`events.networkPolicy.databaseTo=[]`, `at '/networkPolicy/databaseTo': minItems: got 0, want 1`},
			{`iidy.networkPolicy.apiServerPorts=[]`, `at '/networkPolicy/apiServerPorts': minItems: got 0, want 1`},
			{`pyggpot.networkPolicy.apiserverTo=[]`, `at '/networkPolicy': additional properties 'apiserverTo' not allowed`},
			{`global.networkPolicy.enabled="yes"`, `at '/global/networkPolicy/enabled': value must be one of`},
			{`iidy.auth.enabled="on"`, `at '/auth/enabled': value must be one of`},
			{`iidy.auth.rules=[]`, `at '/auth': additional properties 'rules' not allowed`},
			{`global.auth.issuer="http://issuer"`, `at '/global/auth/issuer': 'http://issuer' does not match`},
			{
				`global.auth.rules[0]={"subjects": [], "services": ["count"], "allow": ["all"]}`,
				`at '/global/auth/rules/0/subjects': minItems: got 0, want 1`,
			},
			{`global.auth.rules[0].services[0]="count"`, `at '/global/auth/rules/0/services/0': value must be one of 'counts'`},
			{`global.auth.rules[0].allow[0]="write"`, `rules/0/allow/0': value must be one of 'read', 'change', 'administer'`},
			{
				`global.auth.rules[1]={"subjects": ["a*b"], "service": ["iidy"], "allow": ["read"]}`,
				`at '/global/auth/rules/1/subjects/0': 'a*b' does not match`,
			},
			{`global.auth.rules[1].services=null`, `at '/global/auth/rules/1/services': got null, want array`},
			{`global.auth.rules[1].service=["iidy"]`, `rules/1': additional properties 'service' not allowed`},
			{`iidy.minReadySeconds="soon"`, `at '/minReadySeconds': 'soon' does not match`},
			{`iidy.image.tag="a b"`, `at '/image/tag': 'a b' does not match`},
			{`payments.image.tag="1@sha256:12"`, `at '/image/tag': '1@sha256:12' does not match`},
			{`global.image.tag=1234567`, `at '/global/image/tag': got number, want string`},
			{`global.database.pooler=""`, `at '/global/database/pooler': value must be one of 'none', 'transaction'`},
			{`test.image.repository=null`, `at '/test/image': missing property 'repository'`},
		},
		{{`global=null`, `missing property 'global'`}, {`counts.database=null`, `at '/counts': missing property 'database'`}},
	} {
		var args []string
		for _, value := range wrong {
			args = append(args, "--set-json="+value[0])
		}
		for _, helm := range []string{helm3, helm4} {
			_, err := template(t, helm, umbrella, "", args...)
			for _, value := range wrong {
				if err == nil || !strings.Contains(err.Error(), value[1]) {
					t.Errorf("%s: %s is not refused by %s, but %v", helm, value[0], value[1], err)
				}
			}
		}
	}
}

// What no schema can say is refused by the templates, with the name of the value.
func TestTheTemplatesRefuse(t *testing.T) {
	t.Parallel()
	const uri, secret = `database: {keys: {uri: uri}}`, `{existingSecret: a, key: b}`
	wantRefused(t, umbrella, `counts: {config: {PGPORT: 5432}}`, `counts.config.PGPORT: the chart sets PGPORT by`)
	wantRefused(t, umbrella, `global: {auht: {enabled: true}}`, `global.auht: there is no such value`)
	for _, c := range [][2]string{
		{`global: {database: {maxConnection: 1}}`, `global.database.maxConnection: there is no such value`},
		{
			`topologySpread: {whenUnsatisfiableOf: {rack: DoNotSchedule}}`,
			`service.topologySpread.whenUnsatisfiableOf: rack is not in topologyKeys`,
		},
		{`database: {existingSecret: ""}`, `service.database.existingSecret is required`},
		{`image: {repository: ""}`, `service.image.repository is required`},
		{`autoscaling: {enabled: true, minReplicas: 5}`, `service: autoscaling.minReplicas (5) is more than`},
		{
			`autoscaling: {enabled: true, targetCPUAverageValue: ""}`,
			`service: an autoscaler needs autoscaling.targetCPUAverageValue or autoscaling.metrics`,
		},

		{`ingress: {enabled: true}`, `service.ingress.hosts is empty: name them, such as {host: service.example}`},
		{`grpcRoute: {enabled: true}`, `service.grpcRoute.parentRefs is empty: name the gateway`},
		{`grpcRoute: {enabled: true, parentRefs: [{name: a}]}`, `service.grpcRoute needs a service that speaks gRPC`},
		{`httpRoute: {enabled: true}`, `service.httpRoute.parentRefs is empty: name the gateway`},
		{
			`serviceMonitor: {enabled: true, scrapeTimeout: 31s}`,
			`service.serviceMonitor.scrapeTimeout is 31s: Prometheus takes no time longer than the interval, 30s`,
		},

		{`auth: {enabled: true}`, `global.auth.rules is empty, so no caller could do anything`},
		{`config: {AUTH: token}`, `service.config.AUTH: the chart sets AUTH by a value`},

		{`config: {SHUTDOWN_DELAY: 9s}`, `service.config.SHUTDOWN_DELAY: the chart sets SHUTDOWN_DELAY by a value`},
		{"config: {SPOOL_MAX: 2GiB}\nspool: {enabled: true}", `service.config.SPOOL_MAX: the chart sets SPOOL_MAX by a`},
		{`config: {DATABASE_URL: x}`, `service.config.DATABASE_URL: the chart sets DATABASE_URL`},
		{`config: {PGPASSWORD: x}`, `service.config.PGPASSWORD: the chart sets PGPASSWORD by a value`},
		{`secretEnv: {PGHOST: ` + secret + `}`, `service.secretEnv.PGHOST: the chart sets PGHOST by`},
		{`secretEnv: {DATABASE_URL: ` + secret + `}`, `service.secretEnv.DATABASE_URL: the chart sets`},
		{`secretEnv: {MIGRATE_DATABASE_URL: ` + secret + `}`, `service.secretEnv.MIGRATE_DATABASE_URL: the chart sets`},
		{`database: {passwordFile: true, keys: {uri: uri}}`, `service.database.passwordFile: database.keys.uri is a`},
		{"database: {passwordFile: true}\nextraEnv: [{name: PGPASSWORD}]", `service.extraEnv: the chart sets PGPASSWORD by`},
		{`migrations: {existingSecret: owner}`, `service.migrations.existingSecret: in the mode startup one role migrates`},
		{
			"migrations: {mode: startup, clientCertSecret: c}\nglobal: {migrations: {mode: job}}",
			`service.migrations.clientCertSecret: in the mode startup`,
		},
		{`extraEnv: [{name: DB_MAX_OPEN_CONNS}]`, `service.extraEnv: the chart sets DB_MAX_OPEN_CONNS by a value`},
		{`extraEnv: [{name: PGDATABASE}]`, `service.extraEnv: the chart sets PGDATABASE by`},
		{"extraEnv: [{name: DATABASE_URI}]\n" + uri, `service.extraEnv: the chart sets DATABASE_URI by`},

		{"config: {PGPASSWORD: x}\n" + uri, `service.config.PGPASSWORD: config ends in`},
		{`config: {OTEL_EXPORTER_OTLP_HEADERS: x}`, `service.config.OTEL_EXPORTER_OTLP_HEADERS: config ends in`},
		{`config: {OTEL_EXPORTER_OTLP_TRACES_HEADERS: x}`, `OTLP_TRACES_HEADERS: config ends in`},
		{`config: {FINGERPRINT_SECRET: x}`, `service.config.FINGERPRINT_SECRET: config ends in`},
		{`config: {FINGERPRINT_SECRET_PREVIOUS: x}`, `service.config.FINGERPRINT_SECRET_PREVIOUS: config ends in`},
		{`config: {PROCESSOR_DATABASE_URL: x}`, `service.config.PROCESSOR_DATABASE_URL: config ends in`},
		{"config: {TOKEN: x}\nsecretEnv: {TOKEN: " + secret + `}`, `service.config.TOKEN: config ends in`},
		{`global: {config: {HTTP_ADDR: x}}`, `global.config.HTTP_ADDR: the chart sets HTTP_ADDR by a value`},
		{`global: {config: {MY_PASSWORD: x}}`, `global.config.MY_PASSWORD: config ends in`},
		{`global: {secretEnv: {PGPASSWORD: ` + secret + `}}`, `global.secretEnv.PGPASSWORD: the chart sets PGPASSWORD`},
		{`global: {config: {REQUEST_TIMEOUT: 1m}}`, `and REQUEST_TIMEOUT is 60 s`},
		{`global: {config: {C: 12345678901234567890}}`, `global.config.C: write so large a number in quotes`},

		{`extraEnv: [{name: A}, {name: B}, {name: A}]`, `service.extraEnv: A is set twice`},
		{"extraEnv: [{name: A}]\nconfig: {A: 1}", `service.extraEnv: A is set twice`},
		{"extraEnv: [{name: A}]\nsecretEnv: {A: " + secret + `}`, `service.extraEnv: A is set twice`},

		{`shutdown: {timeoutSeconds: 10}`, `service.shutdown.timeoutSeconds is 10: no replica starts`},
		{`config: {REQUEST_TIMEOUT: 20s}`, `and REQUEST_TIMEOUT is 20 s`},
		{`config: {REQUEST_TIMEOUT: 1m}`, `and REQUEST_TIMEOUT is 60 s`},
		{`extraEnv: [{name: REQUEST_TIMEOUT, value: 60s}]`, `and REQUEST_TIMEOUT is 60 s`},

		{`config: {C: 12345678901234567890}`, `service.config.C: write so large a number in quotes`},
		{`config: {C: -12345678901234567890}`, `service.config.C: write so large a number in quotes`},
	} {
		wantRefused(t, alone, c[0], c[1])
	}
}

// Unusual values that are right are accepted.
func TestUnusualValuesAreAccepted(t *testing.T) {
	t.Parallel()
	for _, values := range []string{
		`
global: {cattle: {clusterId: c-1}, systemDefaultRegistry: ""} # Rancher's
counts: {config: {DB_LOCK_TIMEOUT: 1s, DB_STATEMENT_TIMEOUT: 2s, REQUEST_TIMEOUT: 3s}, shutdown: {timeoutSeconds: 4}}
events: {config: null}
iidy: {config: {REQUEST_TIMEOUT: 1m30s}} # the service judges these two
pyggpot: {config: {REQUEST_TIMEOUT: 5}}
payments: {extraEnv: [{name: PROCESSOR_DATABASE_URL, value: x}]} # whose secretEnv is off
`, `
counts: {config: {A: 1}, secretEnv: null, extraEnv: null}
events: {extraEnv: [{name: REQUEST_TIMEOUT, value: 3s}], shutdown: {timeoutSeconds: 4}}
iidy: {secretEnv: {REQUEST_TIMEOUT: {existingSecret: a, key: b}}, shutdown: {timeoutSeconds: 4}}
pyggpot: {extraEnv: [{name: REQUEST_TIMEOUT, valueFrom: {}}], shutdown: {timeoutSeconds: 4}}
`, `
# A URI without a role: the chart sets neither PGUSER nor PGPASSWORD then.
counts: {config: {PGUSER: me}, database: {keys: {uri: uri}}}
events: {extraEnv: [{name: PGUSER, value: me}], secretEnv: {PGPASSWORD: {existingSecret: a, key: b}},
  database: {keys: {uri: uri}}}
iidy: {config: {OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4317", OTEL_EXPORTER_OTLP_PROTOCOL: grpc,
  OTEL_SERVICE_NAME: c}}
pyggpot: {config: {C: 9007199254740992, D: "12345678901234567890"}, extraEnv: [{name: LOG_LEVEL, value: debug}]}
`,
	} {
		renderAlike(t, umbrella, values)
	}
}

// A release's name may have 53 characters. The services' names follow it, and are neither cut off nor equal.
func TestLongReleaseNames(t *testing.T) {
	t.Parallel()
	const everything = "counts: {networkPolicy: {enabled: true}}\nglobal: {serviceMonitor: {enabled: true}}"
	for _, n := range []int{44, 47, 53} {
		name := strings.Repeat("r", n-4) + "-end"
		manifests, err := run(t, helm4, everything, "template", name, umbrella, "--kube-version="+kubernetes, "--values=-")
		if err != nil {
			t.Fatalf("%d characters: %v", n, err)
		}
		all, err := decode(manifests) // an error when two objects have one name
		if err != nil {
			t.Fatalf("%d characters: %v", n, err)
		}
		var deployments []string
		for id, o := range all {
			if _, object, _ := strings.Cut(id, "/"); len(object) > 63 {
				t.Errorf("%d characters: %s is too long", n, id)
			}
			if d, ok := o.typed.(*apps.Deployment); ok {
				end := strings.LastIndex(strings.TrimSuffix(d.Name, "-work"), "-")
				deployments = append(deployments, "rowlock"+d.Name[end:])
			}
		}
		if slices.Sort(deployments); !slices.Equal(deployments, workloads()) {
			t.Errorf("%d characters: the Deployments end in %v", n, deployments)
		}
	}
}

// payments does not render without a secret, together or alone, upgrades of releases without one included, unless bare
// fingerprints are allowed; the sentence names both ways. The environment of the replicas has what was chosen.
func TestPaymentsNeedASecret(t *testing.T) {
	t.Parallel()
	const empty, flag = `secretEnv: {FINGERPRINT_SECRET: {existingSecret: ""}}`, "ALLOW_BARE_FINGERPRINTS"
	ofPayments, err := run(t, helm4, "", "show", "values", umbrella, "--jsonpath", "{.payments}")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	for _, more := range []string{"", "config: {" + flag + ": false}", "extraEnv: [{name: " + flag + ", value: 'no'}]"} {
		values := "{" + empty + ", " + more + "}"
		write(t, file, values)
		for _, helm := range []string{helm3, helm4} {
			_, together := template(t, helm, umbrella, "payments: "+values)
			_, apart := template(t, helm, alone, ofPayments, "--values="+file)
			for name, err := range map[string]error{"payments": together, "service": apart} {
				for _, want := range []string{
					name + `.secretEnv.FINGERPRINT_SECRET.existingSecret is empty: name a secret whose key "current" holds 32 bytes`,
					"set " + name + ".config.ALLOW_BARE_FINGERPRINTS to true",
				} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %s: %v, want %s", helm, values, err, want)
					}
				}
			}
		}
	}
	for values, want := range map[string][2]string{
		"": {"rowlock-payments-fingerprint/current", ""},
		"secretEnv: {FINGERPRINT_SECRET: {existingSecret: mine, key: k}}":        {"mine/k", ""},
		empty + ", config: {ALLOW_BARE_FINGERPRINTS: true}":                      {"", "true"},
		empty + ", extraEnv: [{name: ALLOW_BARE_FINGERPRINTS, value: 'true'}]":   {"", "true"},
		empty + ", extraEnv: [{name: FINGERPRINT_SECRET, value: of my own way}]": {"of my own way", ""},
	} {
		env := environment(t, render(t, umbrella, "payments: {"+values+"}"), "rowlock-payments")
		if got := [2]string{env["FINGERPRINT_SECRET"], env[flag]}; got != want {
			t.Errorf("%s gives %q, want %q", values, got, want)
		}
	}
}
