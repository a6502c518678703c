# Everything a person or CI does here. `make` alone lists it.

MODULES  := client platform $(patsubst %/go.mod,%,$(sort $(wildcard services/*/go.mod))) lab
SERVICES := $(notdir $(patsubst %/go.mod,%,$(sort $(wildcard services/*/go.mod))))
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# Variables that a caller may set.
PKG       ?= work
TESTFLAGS ?=
FORMAT    ?= pkgname
ARGS      ?=
SERVICE   ?= counts
MIN_COVER ?= 90
BASE      ?=
FUZZTIME  ?= 30s
VULNDB    ?= https://vuln.go.dev
# Packages tested at once. Half of a test's time is waiting for servers, so it is more than the cores of a small machine.
TEST_PACKAGES ?= 5

# -mod=mod, which some people keep in their environment, is refused in a workspace.
export GOFLAGS := $(filter-out -mod=%,$(GOFLAGS))

# Of the images too.
GO_TAGS := $(shell sed -n 's/^ARG GO_TAGS=//p' Dockerfile)
LDFLAGS := -X github.com/rowlock/rowlock/platform/lifecycle.version=$(VERSION)

# The path of a pinned tool, built on first use and kept in Go's build cache.
tool = $$(GOWORK=off go -C $(or $(2),tools) tool -n $(1))

# Modules of tools that are not in the workspace.
TOOLS := tools tools/cluster tools/contracts tools/workflows

# For the test in a cluster, and for people with Docker.
RELEASE   ?= rowlock
NAMESPACE ?= rowlock
IMAGE_TAG ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo devel)

.DEFAULT_GOAL := help
.PHONY: help build run test cover lint fmt verify generate tidy bench prove prove-long prove-ha prove-citus mutation-test prove-bites fuzz nightly vuln vuln-images licences \
	test-postgres images image-stage image-last e2e kind-up kind-load kind-install kind-test kind-logs kind-down release-notes \
	chart-package chart-push sign clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/<service> for every service, and bin/rowlock
	CGO_ENABLED=0 go build -trimpath -tags '$(GO_TAGS)' -ldflags '$(LDFLAGS)' -o bin/ ./services/*/cmd/* ./lab/cmd/*

run: build ## Run every service with a private PostgreSQL (ARGS='--replicas 3')
	./bin/rowlock up $(ARGS)

test: build ## Test all modules with the race detector (PKG=./services/counts/... TESTFLAGS='-run X')
	@mkdir -p .tmp
	@race="$$(hack/race)" || exit; \
	gotestsum="$(call tool,gotestsum)" || \
		{ echo "make test: gotestsum cannot be built here (see above); the first build needs the Go module proxy." >&2; exit 1; }; \
	set -x; ROWLOCK_BINARIES=$(CURDIR)/bin ./bin/rowlock with-postgres -- "$$gotestsum" --format=$(FORMAT) --jsonfile=.tmp/test.json -- \
		$$race -vet=off -p=$(TEST_PACKAGES) -ldflags='-s -w' -shuffle=on -timeout=20m $(TESTFLAGS) $(PKG)

test-postgres: ## Test the services on another PostgreSQL, whose initdb is in POSTGRES (POSTGRES=/usr/lib/postgresql/19/bin)
	ROWLOCK_POSTGRES_BIN=$(POSTGRES) $(MAKE) test PKG='$(SERVICES:%=./services/%/...) ./platform/sqldb/... ./platform/migrate/... ./lab/internal/local/...'

cover: build ## Fail when a service's tests cover less than MIN_COVER percent of it
	./bin/rowlock with-postgres -- hack/cover $(MIN_COVER) $(SERVICES)

lint: ## Lint every module and the contracts, and test the rules of .golangci.yml (BASE=v0.1.0)
	@linter="$(call tool,golangci-lint)" || exit; status=0; \
	for module in $(MODULES) $(TOOLS); do \
		echo "lint $$module"; \
		(cd $$module && GOWORK=off "$$linter" run ./...) || status=1; \
	done; exit $$status
	$(call tool,actionlint,tools/workflows) -shellcheck= -pyflakes= .github/workflows/*.yml
	hack/contracts "$(call tool,oasdiff,tools/contracts)" "$(call tool,buf)" $(BASE)
	cd tools && GOWORK=off go test -count=1 ./...
	cd tools/contracts && GOWORK=off go test -count=1 ./...
	cd tools/workflows && GOWORK=off go test -count=1 ./...

fmt: ## Format all Go code
	@set -e; linter="$(call tool,golangci-lint)"; \
	for module in $(MODULES) $(TOOLS); do (cd $$module && "$$linter" fmt ./...); done

verify: ## Check generated code, go.mod files, and that both ways of building work
	hack/verify $(MODULES)
	@set -e; for service in $(SERVICES); do $(MAKE) --no-print-directory image-stage SERVICE=$$service; done
	hack/image-stage rowlock $(VERSION) lab

generate: ## Generate code from the contracts
	@set -e; for module in $(MODULES); do (cd $$module && GOWORK=off go generate ./...); done

# Tidied first, for go work sync to see what each module really needs; tidied again, for what it wrote. go work sync drops the sums of
# go.work.sum that nothing needs any more, and listing all modules adds those that are missing. go.work's toolchain line goes to every
# module but client, because a library's toolchain line has no effect on its importers.
tidy: ## Bring go.work and every go.mod in order
	go work use $(wildcard services/*)
	@set -e; pinned=$$(sed -n 's/^toolchain //p' go.work); for module in $(filter-out client,$(MODULES)) $(TOOLS); do \
		(cd $$module && GOWORK=off go mod edit -toolchain=$$pinned); \
	done
	@set -e; for module in $(MODULES) $(TOOLS); do (cd $$module && GOWORK=off go mod tidy); done
	go work sync
	@set -e; for module in $(MODULES); do (cd $$module && GOWORK=off go mod tidy); done
	go list -m all >/dev/null

bench: build ## Measure a service beside bare pgbench (SERVICE=counts ARGS=...)
	./bin/rowlock bench $(SERVICE) $(ARGS)

prove: build ## Inject faults into the running system and check the promises (ARGS='--faults kill --seed 7')
	./bin/rowlock prove $(ARGS)

prove-long: build ## The same for half an hour
	./bin/rowlock prove --for 30m $(ARGS)

prove-ha: build ## The same while Patroni moves the database ten times (Debian's patroni and etcd-server; skipped without them)
	go test -tags=ha -count=1 ./lab/internal/patroni
	./bin/rowlock prove --faults ha --for 4m $(ARGS)

# One at a time: on a small machine the servers and replicas of all are too many for a move of a shard to be short.
prove-citus: build ## The same on a Citus coordinator and its workers, for each service that runs there (skipped where the local PostgreSQL has no Citus)
	@set -e; for service in counts iidy; do \
		./bin/rowlock prove --cluster citus --service $$service --for 2m --out .tmp/proof-citus/$$service $(ARGS); \
	done

mutation-test: build ## Build known mistakes into the services and check that the proof finds each in a minute (ARGS='--mutant now')
	./bin/rowlock mutation-test $(ARGS)

prove-bites: mutation-test # its name in earlier releases

fuzz: ## Fuzz every Fuzz function for FUZZTIME each
	hack/fuzz $(FUZZTIME) $(MODULES)

nightly: ## The long run: five rounds of tests, half an hour of faults, hostile clients of each service, failovers, Patroni, Citus, ten minutes of keys, known bugs, two minutes per fuzz target, known vulnerabilities
	$(MAKE) test TESTFLAGS='-count=5'
	$(MAKE) prove-long
	@set -e; for service in $(SERVICES); do $(MAKE) prove ARGS="--service $$service --faults hostile --for 40s --out .tmp/proof-hostile/$$service"; done
	$(MAKE) prove ARGS='--faults failover,failover-async --for 2m'
	$(MAKE) prove-ha
	$(MAKE) prove-citus
	$(MAKE) bench ARGS='--bloat 10m'
	$(MAKE) mutation-test
	$(MAKE) fuzz FUZZTIME=2m
	$(MAKE) vuln

vuln: ## Look for known vulnerabilities in all modules (asks VULNDB)
	@set -e; govulncheck="$(call tool,govulncheck)"; \
	for module in $(MODULES); do echo "vuln $$module"; (cd $$module && GOWORK=off "$$govulncheck" -db='$(VULNDB)' ./...); done

vuln-images: ## Look for known vulnerabilities in the programs that make images has put into images
	@set -e; govulncheck="$(call tool,govulncheck)"; \
	for program in .tmp/images/programs/*; do echo "vuln $$program"; "$$govulncheck" -mode=binary -db='$(VULNDB)' "$$program"; done

licences: ## Report the licences of all that is linked, and fail for one that is unknown or copyleft
	hack/licences $(MODULES)

images: ## Build the images of all services and the lab, and print their sizes (PUSH=registry pushes them for amd64 and arm64)
	hack/images $(IMAGE_TAG) $(SERVICES)

image-last: ## Build the Dockerfile's last stage with SERVICE by buildah, without Docker
	hack/image-last $(SERVICE) $(VERSION)

image-stage: ## Build SERVICE as the Dockerfile does, without Docker
	hack/image-stage $(SERVICE) $(VERSION)

e2e: ## Test in a cluster: that of KUBECONFIG, or else the test cluster beside this clone
	hack/e2e $(IMAGE_TAG) $(SERVICES)

kind-up: ## Make a cluster in Docker, with metrics-server and a throw-away PostgreSQL
	hack/kind up $(NAMESPACE)

kind-load: images ## Build the images and load them into that cluster
	hack/kind load $(IMAGE_TAG) $(SERVICES)

kind-install: ## Install the chart there
	hack/kind install $(NAMESPACE) $(RELEASE) $(IMAGE_TAG) $(SERVICES)

kind-test: ## helm test, then make e2e, in that cluster
	hack/kind test $(NAMESPACE) $(RELEASE)
	hack/kind e2e $(IMAGE_TAG) $(SERVICES)

kind-logs: ## Write the logs of all its pods to .tmp/kind-logs
	hack/kind logs

kind-down: ## Delete it
	hack/kind down

release-notes: ## Print the section of CHANGELOG.md that is named VERSION, as the text of a GitHub release
	@hack/release-notes $(VERSION)

chart-package: ## Pack the chart into .tmp/chart (VERSION=0.1.0 DIGESTS=.tmp/images/digests, which PUSH=registry make images leaves)
	hack/chart-package $(VERSION) $(DIGESTS)

chart-push: ## Push the packed chart to oci://PUSH/charts (VERSION=0.1.0 PUSH=ghcr.io/you)
	hack/chart-push $(VERSION) "$(PUSH)" $(ARGS)

sign: ## Sign by cosign what images and chart-push have pushed; in a GitHub workflow without a key
	@set -e; images=$$(sed -E 's/:[^:@/]*@/@/' .tmp/images/digests .tmp/chart/digest); for image in $$images; do cosign sign --yes "$$image"; done

clean: ## Remove what make built
	rm -rf bin .tmp
