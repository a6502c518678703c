package chart

import (
	"strings"
	"testing"
)

// What makes no sense is refused when it is rendered, with the name of the value in the sentence.
func TestWrongValuesAreRefused(t *testing.T) {
	t.Parallel()
	eachHelm(t, func(t *testing.T, helm string) {
		for values, want := range map[string]string{
			`bogus: 1`:                                             `additional properties 'bogus' not allowed`,
			`counts: {replica: 3}`:                                 `additional properties 'replica' not allowed`,
			`counts: {image: {tga: x}}`:                            `at '/image': additional properties 'tga' not allowed`,
			`counts: {replicas: three}`:                            `at '/replicas': got string, want integer`,
			`counts: {replicas: -1}`:                               `at '/replicas': minimum: got -1, want 0`,
			`counts: {maxSurge: 0}`:                                `at '/maxSurge': minimum: got 0, want 1`,
			`counts: {maxSurge: 1.5}`:                              `at '/maxSurge': got number, want integer or string`,
			`counts: {podDisruptionBudget: {maxUnavailable: 0%}}`:  `at '/podDisruptionBudget/maxUnavailable': '0%' does not match`,
			`counts: {database: {pooler: session}}`:                `at '/database/pooler': value must be one of '', 'none', 'transaction'`,
			`counts: {database: {parameters: "?sslmode=require"}}`: `at '/database/parameters'`,
			`counts: {database: {password: secret}}`:               `additional properties 'password' not allowed`,
			`counts: {database: {existingSecret: ""}}`:             `counts.database.existingSecret is required`,
			`counts: {image: {repository: ""}}`:                    `counts.image.repository is required`,
			`counts: {migrations: {mode: job}}`:                    `at '/migrations/mode': value must be one of 'startup', 'none'`,
			`counts: {config: {log_level: debug}}`:                 `log_level`,
			`counts: {config: {SHUTDOWN_DELAY: 9s}}`:               `counts.config.SHUTDOWN_DELAY: the chart sets SHUTDOWN_DELAY by a value`,
			`counts: {config: {DATABASE_URL: x}}`:                  `counts.config.DATABASE_URL: the chart sets DATABASE_URL`,
			`counts: {secretEnv: {X: {existingSecret: a}}}`:        `at '/secretEnv/X': missing property 'key'`,
			`counts: {autoscaling: {minReplicas: 7}}`:              `counts: autoscaling.minReplicas (7) is more than autoscaling.maxReplicas (6)`,
			`counts: {resources: {requests: {cpu: null}}}`:         `resources.requests.cpu must be set`,
			`counts: {autoscaling: {behavior: {scaleUpp: {}}}}`:    `additional properties 'scaleUpp' not allowed`,
			`counts: {workloads: {serve: {args: []}}}`:             `additional properties 'args' not allowed`,
			`counts: {shutdown: {preStopSeconds: 0}}`:              `at '/shutdown/preStopSeconds': minimum: got 0, want 1`,
			`counts: {service: {type: ExternalName}}`:              `at '/service/type'`,
			`global: {database: {maxConnection: 1}}`:               `additional properties 'maxConnection' not allowed`,
			`global: {database: {pooler: ""}}`:                     `at '/global/database/pooler': value must be one of 'none', 'transaction'`,
			`global: {image: {tag: 1234567}}`:                      `at '/global/image/tag': got number, want string`,
			`payments: {database: {maxOpenConns: 0}}`:              `at '/database/maxOpenConns': minimum: got 0, want 1`,
		} {
			_, err := template(t, helm, umbrella, values)
			if err == nil {
				t.Errorf("%s is accepted", values)
			} else if !strings.Contains(err.Error(), want) {
				t.Errorf("%s is refused by %v, want %s", values, err, want)
			}
		}
	})
}
