package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// The generic chart, released alone with the umbrella's values of a service, as README.md shows it, renders the same
// pod under the release's own name.
func TestOneServiceAlone(t *testing.T) {
	t.Parallel()
	const parameters = "database.parameters=sslmode=disable"
	together := render(t, umbrella, "", "--set=global."+parameters)
	for _, service := range targets.All() {
		values, err := run(t, helm4, "", "show", "values", umbrella, "--jsonpath", "{."+service.Name+"}")
		if err != nil {
			t.Fatal(err)
		}
		name := "rowlock-" + service.Name
		got := render(t, alone, values, "--set="+parameters, "--set=fullnameOverride="+name)
		for _, w := range service.Workloads() {
			want := string(raw(t, get[apps.Deployment](t, together, "Deployment/"+name+w).Spec.Template.Spec))
			pod := string(raw(t, get[apps.Deployment](t, got, "Deployment/"+name+w).Spec.Template.Spec))
			if pod != want {
				t.Errorf("%s%s alone is\n%s\ntogether\n%s", service.Name, w, pod, want)
			}
		}
	}
}

// A service alone has the same budget of connections.
func TestTheBudgetOfOneServiceAlone(t *testing.T) {
	t.Parallel()
	// Three replicas and one that is ending x (3 + 4)
	values := "database: {secondPoolConns: 4, maxConnections: %d}"
	render(t, alone, fmt.Sprintf(values, 31))
	wantRefused(t, alone, fmt.Sprintf(values, 30),
		"the replicas may open 28 connections, and database.maxConnections=30 leaves 27")
}

// The notes after an installation. They are rendered by Helm 4: Helm 3 built as a Go tool assumes Kubernetes 1.20,
// which the chart refuses.
func TestNotes(t *testing.T) {
	t.Parallel()
	needed := connections(t, render(t, umbrella, ""))
	all := strings.Join(slices.Sorted(slices.Values(targets.Names())), ", ")
	for values, want := range map[string][]string{
		"{}": {
			"counts  http://rowlock-counts.default.svc:80", "counts, internal  http://rowlock-counts-internal.default.svc:8081",
			fmt.Sprintf("at most %d of the 97 that global.database.maxConnections=100 leaves", needed), "helm test rowlock",
			"pyggpot, each replica  dns:///rowlock-pyggpot-headless.default.svc:8080",
			"Pods that call " + all + ` need the label rowlock.dev/client: "true"`,
			"Metrics of " + all + " are for the peers in networkPolicy.adminFrom",
			"published nowhere, and must be on every node", "\n  rowlock/count-processing-service:0.1.0\n",
			"\n  rowlock/lab:0.1.0\n",
			"  kubectl create secret generic --namespace default NAME --from-literal=KEY=VALUE",
			"not verified by " + all + " (sslmode=require)", "No token is asked of callers of " + all,
		},
		"global: {image: {registry: ghcr.io/you}, migrations: {mode: init}, database: {caSecret: rowlock-db-ca}}": {
			"  kubectl get secret --namespace default rowlock-counts-db rowlock-counts-db-owner rowlock-db-ca ",
		},
		"global: {image: {registry: ghcr.io/you}, migrations: {mode: job}, database: {passwordFile: true}}": {
			"  kubectl get secret --namespace default rowlock-counts-db rowlock-counts-db-owner ",
		},
		identified: {
			"Callers of " + all + " need a token of the audience rowlock from https://kubernetes.default.svc.cluster.local",
			"policy.yaml in the ConfigMap rowlock-auth allows",
		},
		"global: {auth: {enabled: true, existingConfigMap: policy}}\n" +
			"pyggpot: {networkPolicy: {adminFrom: []}, extraEnvFrom: [{configMapRef: {name: flags}}]}": {
			"These ConfigMaps must exist too: flags policy\n", "Metrics of " + strings.TrimSuffix(all, ", pyggpot") + " are for",
		},
		"iidy: {httpRoute: {enabled: true, parentRefs: [{name: public}]}}": {
			"WARNING: the NetworkPolicy of iidy admits no ingress controller and no gateway",
		},
		fmt.Sprintf("global: {database: {maxConnections: %d, pooler: transaction}", needed+reserved) +
			", networkPolicy: {enabled: false}}" +
			"\npayments: {config: {ALLOW_BARE_FINGERPRINTS: true}, secretEnv: {FINGERPRINT_SECRET: {existingSecret: ''}}}": {
			"WARNING: fewer than three are left", "WARNING: iidy migrates through the pooler",
			"WARNING: payments runs without FINGERPRINT_SECRET", "Any pod may call " + all + ": there is no NetworkPolicy",
		},
	} {
		out, err := run(t, helm4, values, "install", release, umbrella, "--dry-run=client", "--values=-")
		if err != nil {
			t.Fatal(err)
		}
		_, notes, _ := strings.Cut(out, "\nNOTES:\n")
		for _, line := range want {
			if !strings.Contains(notes, line) {
				t.Errorf("%s: the notes lack %q:\n%s", values, line, notes)
			}
		}
		for secret, keys := range secretsOf(render(t, umbrella, values)) {
			slices.Sort(keys)
			if line := "\n  " + secret + ": " + strings.Join(slices.Compact(keys), " ") + "\n"; !strings.Contains(notes, line) {
				t.Errorf("%s: the notes lack %q:\n%s", values, line, notes)
			}
		}
		if values == "{}" && strings.Contains(notes, "WARNING") {
			t.Errorf("the defaults warn:\n%s", notes)
		}
	}
}

// secretsOf lists the secrets that pods cannot start without, with their keys.
func secretsOf(all objects) map[string][]string {
	found := map[string][]string{}
	for _, o := range all {
		pod := podOf(o)
		for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
			for _, v := range c.Env {
				if v.ValueFrom == nil || v.ValueFrom.SecretKeyRef == nil {
					continue
				}
				if ref := v.ValueFrom.SecretKeyRef; ref.Optional == nil || !*ref.Optional {
					found[ref.Name] = append(found[ref.Name], ref.Key)
				}
			}
		}
		for _, v := range pod.Volumes {
			if v.Secret != nil {
				for _, item := range v.Secret.Items {
					found[v.Secret.SecretName] = append(found[v.Secret.SecretName], item.Key)
				}
			}
		}
	}
	return found
}

// A name that YAML reads as a number or a truth value is a text in every object, and so is a path with a colon.
func TestNamesAreTexts(t *testing.T) {
	t.Parallel()
	all := render(t, alone, `
fullnameOverride: "true"
database: {existingSecret: "12", keys: {password: "34"}, caSecret: "56", clientCertSecret: "78", passwordFile: true}
secretEnv: {TOKEN: {existingSecret: "12", key: "34"}}
serviceAccount: {name: "56"}
migrations: {mode: init}
autoscaling: {enabled: true}
internalService: {enabled: true}
service: {headless: {enabled: true}}
ingress: {enabled: true, className: "12", hosts: [{host: a.example, paths: [{path: "/a: b #c"}]}]}
httpRoute: {enabled: true, parentRefs: [{name: "12"}]}
global:
  networkPolicy: {clientNamespaces: ["12", "on", "null"]}
  serviceMonitor: {enabled: true}
  topologySpread: {topologyKeys: ["12"]}
  auth: {enabled: true, existingConfigMap: "12"}
`, "--namespace=12")
	path := get[networking.Ingress](t, all, "Ingress/true").Spec.Rules[0].HTTP.Paths[0].Path
	from := get[networking.NetworkPolicy](t, all, "NetworkPolicy/true").Spec.Ingress[0].From
	if path != "/a: b #c" || len(from) != 4 || from[3].NamespaceSelector.MatchLabels[core.LabelMetadataName] != "null" {
		t.Errorf("the path is %s, and callers are %s", path, raw(t, from))
	}
}
