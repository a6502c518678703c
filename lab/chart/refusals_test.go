package chart

import (
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
)

// uri ends the values of a service whose secret has a whole URI.
const uri = `database: {keys: {uri: uri}}}`

// Wrong values are refused when the chart is rendered, with the name of the value.
func TestWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		for _, c := range [][2]string{
			{`bogus: 1`, `at '/bogus': got number, want object`},
			{`count: {replicas: 3}`, `at '/count': missing properties 'database', 'enabled', 'image'`},
			{`counts: {replica: 3}`, `additional properties 'replica' not allowed`},
			{`counts: {image: {tga: x}}`, `at '/image': additional properties 'tga' not allowed`},
			{`counts: {replicas: three}`, `at '/replicas': got string, want integer`},
			{`counts: {replicas: -1}`, `at '/replicas': minimum: got -1, want 0`},
			{`counts: {maxSurge: 0}`, `at '/maxSurge': minimum: got 0, want 1`},
			{`counts: {maxSurge: 1.5}`, `at '/maxSurge': got number, want integer or string`},
			{`counts: {podDisruptionBudget: {maxUnavailable: 0%}}`, `at '/podDisruptionBudget/maxUnavailable': '0%' does not`},
			{`counts: {database: {pooler: session}}`, `at '/database/pooler': value must be one of '', 'none', 'transaction'`},
			{`counts: {database: {parameters: "?sslmode=require"}}`, `at '/database/parameters'`},
			{`counts: {database: {password: secret}}`, `additional properties 'password' not allowed`},
			{`counts: {database: {existingSecret: ""}}`, `counts.database.existingSecret is required`},
			{`counts: {image: {repository: ""}}`, `counts.image.repository is required`},
			{`counts: {migrations: {mode: job}}`, `at '/migrations/mode': value must be one of 'startup', 'none'`},
			{`counts: {config: {log_level: debug}}`, `log_level`},
			{`counts: {config: {SHUTDOWN_DELAY: 9s}}`, `counts.config.SHUTDOWN_DELAY: the chart sets SHUTDOWN_DELAY by a value`},
			{`counts: {config: {DATABASE_URL: x}}`, `counts.config.DATABASE_URL: the chart sets DATABASE_URL`},
			{`counts: {secretEnv: {X: {existingSecret: a}}}`, `at '/secretEnv/X': missing property 'key'`},
			{`counts: {autoscaling: {minReplicas: 7}}`, `counts: autoscaling.minReplicas (7) is more than`},
			{`counts: {resources: {requests: {cpu: null}}}`, `resources.requests.cpu must be set`},
			{`counts: {autoscaling: {behavior: {scaleUpp: {}}}}`, `additional properties 'scaleUpp' not allowed`},
			{`counts: {workloads: {serve: {args: []}}}`, `additional properties 'args' not allowed`},
			{`counts: {shutdown: {preStopSeconds: 0}}`, `at '/shutdown/preStopSeconds': minimum: got 0, want 1`},
			{`counts: {service: {type: ExternalName}}`, `at '/service/type'`},
			{`global: {database: {maxConnection: 1}}`, `additional properties 'maxConnection' not allowed`},
			{`global: {database: {pooler: ""}}`, `at '/global/database/pooler': value must be one of 'none', 'transaction'`},
			{`global: {image: {tag: 1234567}}`, `at '/global/image/tag': got number, want string`},
			{`payments: {database: {maxOpenConns: 0}}`, `at '/database/maxOpenConns': minimum: got 0, want 1`},
			{`payments: {config: {FINGERPRINT_SECRET: x}}`, `payments.config.FINGERPRINT_SECRET: config ends in`},
			{`payments: {config: {PGPASSWORD: x}}`, `payments.config.PGPASSWORD: the chart sets PGPASSWORD by a value`},
			{`counts: {extraEnv: [{name: DB_MAX_OPEN_CONNS}]}`, `counts.extraEnv: the chart sets DB_MAX_OPEN_CONNS by a value`},
			{`counts: {extraEnv: [{name: DATABASE_URL}]}`, `counts.extraEnv: the chart sets DATABASE_URL by a value`},
			{`iidy: {secretEnv: {DATABASE_URL: {key: b}}}`, `at '/secretEnv/DATABASE_URL': missing property 'existingSecret'`},
			{`iidy: {shutdown: {timeoutSeconds: 10}}`, `iidy.shutdown.timeoutSeconds is 10: no replica starts`},
			{`iidy: {config: {REQUEST_TIMEOUT: 20s}}`, `and REQUEST_TIMEOUT is 20 s`},
			{`iidy: {config: {REQUEST_TIMEOUT: 1m}}`, `and REQUEST_TIMEOUT is 60 s`},
			{`iidy: {minReadySeconds: soon}`, `at '/minReadySeconds': 'soon' does not match`},
			{`iidy: {image: {tag: "a b"}}`, `at '/image/tag': 'a b' does not match`},
			{`global: {image: {tag: "1@sha256:12"}}`, `at '/global/image/tag': '1@sha256:12' does not match`},

			{`counts: {maxSurge: null}`, `missing property 'maxSurge'`},
			{`counts: {minReadySeconds: null}`, `missing property 'minReadySeconds'`},
			{`counts: {workloads: null}`, `missing property 'workloads'`},
			{`counts: {networkPolicy: {databasePorts: null}}`, `at '/networkPolicy': missing property 'databasePorts'`},
			{`counts: {shutdown: {delaySeconds: null}}`, `at '/shutdown': missing property 'delaySeconds'`},
			{`counts: {autoscaling: {maxReplicas: null}}`, `at '/autoscaling': missing property 'maxReplicas'`},
			{`counts: {serviceMonitor: {interval: null}}`, `at '/serviceMonitor': missing property 'interval'`},
			{`counts: {database: null}`, `missing property 'database'`},
			{`global: null`, `missing property 'global'`},
			{`test: {image: {repository: null}}`, `at '/test/image': missing property 'repository'`},

			{`counts: {secretEnv: {PGHOST: {existingSecret: a, key: b}}}`, `counts.secretEnv.PGHOST: the chart sets PGHOST by`},
			{`counts: {extraEnv: [{name: PGDATABASE}]}`, `counts.extraEnv: the chart sets PGDATABASE by`},
			{`counts: {config: {PGPORT: 5432}}`, `counts.config.PGPORT: the chart sets PGPORT by`},
			{`counts: {extraEnv: [{name: DATABASE_URI}], ` + uri, `counts.extraEnv: the chart sets DATABASE_URI by`},
			{`counts: {config: {PGPASSWORD: x}, ` + uri, `counts.config.PGPASSWORD: config ends in`},
			{`counts: {config: {MY_PASSWORD: x}}`, `counts.config.MY_PASSWORD: config ends in`},
			{`counts: {config: {OTEL_EXPORTER_OTLP_HEADERS: x}}`, `counts.config.OTEL_EXPORTER_OTLP_HEADERS: config ends in`},
			{`counts: {config: {OTEL_EXPORTER_OTLP_TRACES_HEADERS: x}}`, `OTLP_TRACES_HEADERS: config ends in`},
			{`counts: {config: {FINGERPRINT_SECRET: x}}`, `counts.config.FINGERPRINT_SECRET: config ends in`},
			{`counts: {config: {FINGERPRINT_SECRET_PREVIOUS: x}}`, `counts.config.FINGERPRINT_SECRET_PREVIOUS: config ends in`},
			{`counts: {config: {PROCESSOR_DATABASE_URL: x}}`, `counts.config.PROCESSOR_DATABASE_URL: config ends in`},
			{`counts: {extraEnv: [{name: A}, {name: B}, {name: A}]}`, `counts.extraEnv: A is set twice`},
			{`counts: {extraEnv: [{name: A}], config: {A: 1}}`, `counts.extraEnv: A is set twice`},
			{`counts: {extraEnv: [{value: a}]}`, `at '/extraEnv/0': missing property 'name'`},
			{`payments: {extraEnv: [{name: FINGERPRINT_SECRET}]}`, `payments.extraEnv: FINGERPRINT_SECRET is set twice`},
			{`iidy: {extraEnv: [{name: REQUEST_TIMEOUT, value: 60s}]}`, `and REQUEST_TIMEOUT is 60 s`},

			{`counts: {config: {C: 12345678901234567890}}`, `counts.config.C: write so large a number in quotes`},
			{`counts: {config: {C: -12345678901234567890}}`, `counts.config.C: write so large a number in quotes`},
			{`counts: {maxSurge: 1000000}`, `at '/maxSurge': maximum: got`},
			{`counts: {replicas: 1000000}`, `at '/replicas': maximum: got`},
			{`counts: {serviceMonitor: {enabled: yes sir}}`, `at '/serviceMonitor/enabled': value must be one of`},
			{`payments: {database: {maxOpenConns: 2}}`, `payments.database.maxOpenConns is 2, and the second pool is`},

			{`iidy: {secretEnv: {DATABASE_URL: {existingSecret: a, key: b}}}`, `iidy.secretEnv.DATABASE_URL: the chart sets`},
		} {
			values, want := c[0], c[1]
			_, err := template(t, helm, umbrella, values)
			if err == nil {
				t.Errorf("%s is accepted", values)
			} else if !strings.Contains(err.Error(), want) {
				t.Errorf("%s is refused by %v, want %s", values, err, want)
			}
		}
	})
}

// Unusual values that are right are accepted.
func TestUnusualValuesAreAccepted(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		for _, values := range []string{
			`iidy: {config: {DB_LOCK_TIMEOUT: 1s, DB_STATEMENT_TIMEOUT: 2s, REQUEST_TIMEOUT: 3s},
  shutdown: {timeoutSeconds: 4}}`,
			`iidy: {config: null}`,
			`iidy: {config: {A: 1}, secretEnv: null, extraEnv: null}`,
			`iidy: {config: {REQUEST_TIMEOUT: 1m30s}}`, // the service judges these two
			`iidy: {config: {REQUEST_TIMEOUT: 5}}`,
			`counts: {extraEnv: [{name: LOG_LEVEL, value: debug}]}`,
			// A URI without a role: the chart sets neither of these then.
			`counts: {extraEnv: [{name: PGUSER, value: me}], secretEnv: {PGPASSWORD: {existingSecret: a, key: b}}, ` + uri,
			`counts: {config: {PGUSER: me}, ` + uri,
			`payments: {extraEnv: [{name: PROCESSOR_DATABASE_URL, value: x}]}`, // whose secretEnv is off
			`iidy: {config: {DB_LOCK_TIMEOUT: 1s, DB_STATEMENT_TIMEOUT: 2s}, extraEnv: [{name: REQUEST_TIMEOUT, value: 3s}],
  shutdown: {timeoutSeconds: 4}}`,
			`iidy: {secretEnv: {REQUEST_TIMEOUT: {existingSecret: a, key: b}}, shutdown: {timeoutSeconds: 4}}`,
			`iidy: {extraEnv: [{name: REQUEST_TIMEOUT, valueFrom: {}}], shutdown: {timeoutSeconds: 4}}`,
			`counts: {config: {OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4317",
  OTEL_EXPORTER_OTLP_PROTOCOL: grpc, OTEL_SERVICE_NAME: c}}`,
			`counts: {config: {C: 9007199254740992}}`,
			`counts: {config: {C: "12345678901234567890"}}`,
		} {
			if _, err := template(t, helm, umbrella, values); err != nil {
				t.Errorf("%s is refused: %v", values, err)
			}
		}
	})
}

// A release's name may have 53 characters. The services' names follow it, and are neither cut off nor equal.
func TestLongReleaseNames(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		for _, n := range []int{43, 44, 47, 53} {
			name := strings.Repeat("r", n-4) + "-end"
			manifests, err := run(t, helm, everything, "template", name, umbrella, "--kube-version="+kubernetes, "--values=-")
			if err != nil {
				t.Fatalf("%d characters: %v", n, err)
			}
			var deployments []string
			for id, o := range decode(t, manifests) { // which reports duplicates
				kind, object, _ := strings.Cut(id, "/")
				if kind != "ConfigMap" && len(object) > 63 {
					t.Errorf("%d characters: %s is too long", n, id)
				}
				if _, ok := o.typed.(*apps.Deployment); ok {
					deployments = append(deployments, "rowlock"+object[strings.LastIndex(strings.TrimSuffix(object, "-work"), "-"):])
				}
			}
			if slices.Sort(deployments); !slices.Equal(deployments, workloads()) {
				t.Errorf("%d characters: the Deployments end in %v", n, deployments)
			}
		}
	})
}
