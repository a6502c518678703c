# What people do daily, and CI. `make` alone lists it. hack/kind, hack/nightly and hack/release have the rest.

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
IMAGE_TAG ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo devel)
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

.DEFAULT_GOAL := help
.PHONY: help build run test cover lint fmt verify generate tidy bench prove mutation-test fuzz nightly vuln images e2e clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo; echo 'hack/kind, hack/nightly and hack/release, without arguments, list theirs.'

build: ## Build bin/<service> for every service, and bin/rowlock
	CGO_ENABLED=0 go build -trimpath -tags '$(GO_TAGS)' -ldflags '$(LDFLAGS)' -o bin/ ./services/*/cmd/* ./lab/cmd/*

run: build ## Run every service with a private PostgreSQL (ARGS='--replicas 3')
	./bin/rowlock up $(ARGS)

test: build ## Test all modules with the race detector (PKG=./services/counts/... TESTFLAGS='-run X')
	@mkdir -p .tmp
	@race="$$(hack/race)" || exit; \
	gotestsum="$(call tool,gotestsum)" || \
		{ echo "make test: gotestsum cannot be built here (see above); the first build needs the Go module proxy." >&2; exit 1; }; \
	set -x; ROWLOCK_BINARIES="$(CURDIR)/bin" ./bin/rowlock with-postgres -- "$$gotestsum" --format=$(FORMAT) --jsonfile=.tmp/test.json -- \
		$$race -vet=off -p=$(TEST_PACKAGES) -ldflags='-s -w' -shuffle=on -timeout=20m $(TESTFLAGS) $(PKG)

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
	@set -e; for tools in $(TOOLS); do echo "test $$tools"; (cd $$tools && GOWORK=off go test -count=1 ./...); done

fmt: ## Format all Go code
	@set -e; linter="$(call tool,golangci-lint)"; \
	for module in $(MODULES) $(TOOLS); do (cd $$module && "$$linter" fmt ./...); done

verify: ## Check generated code, go.mod files, and that both ways of building work
	hack/verify $(MODULES)
	@set -e; for service in $(SERVICES); do hack/image-stage $$service $(VERSION); done
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

mutation-test: build ## Build known mistakes into the services and check that the proof finds each (ARGS='--mutant now')
	./bin/rowlock mutation-test $(ARGS)

fuzz: ## Fuzz every Fuzz function for FUZZTIME each
	hack/fuzz $(FUZZTIME) $(MODULES)

nightly: ## Everything that takes long: hours of tests, faults, failovers and fuzzing
	hack/nightly all

vuln: ## Look for known vulnerabilities in all modules (asks VULNDB)
	@set -e; govulncheck="$(call tool,govulncheck)"; \
	for module in $(MODULES); do echo "vuln $$module"; (cd $$module && GOWORK=off "$$govulncheck" -db='$(VULNDB)' ./...); done

images: ## Build the images of all services and the lab (IMAGE_TAG=0.1.0; PUSH=registry pushes them for amd64 and arm64)
	hack/images $(IMAGE_TAG) $(SERVICES)

e2e: ## Test in the cluster of KUBECONFIG, or else in the test cluster beside this clone
	hack/e2e $(IMAGE_TAG) $(SERVICES)

clean: ## Remove what make built
	rm -rf bin .tmp
