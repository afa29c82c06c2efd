# nadra. `make help` lists the targets. Everything that a target needs and that
# a fresh Debian machine with Go, git and gcc lacks is installed by it.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED ?= 0
# Real manifests by others, for the tests that read them where they are at hand.
ifneq ($(wildcard $(CURDIR)/../shared/corpus/open),)
export NADRA_CORPUS ?= $(CURDIR)/../shared/corpus/open
endif

BIN     := $(CURDIR)/bin
IMAGE   ?= localhost/nadra-node:dev
CONTROLLER_IMAGE ?= localhost/nadra-controller:dev
LDFLAGS := -s -w
GO      := go
TESTSUM  = $(TOOL) gotestsum --format
TOOL    := $(GO) tool -modfile=$(CURDIR)/build/tools/go.mod
CLUSTER := $(BIN)/nadra-cluster
# Tests that bring up a cluster, which takes root and some minutes.
E2E     := -tags e2e

.PHONY: help build unit race fuzz lint vulncheck image release release-check cluster-up cluster-down demo e2e e2e-dropin e2e-ipam e2e-upgrade conformance faults faults-newest-nri monitoring bench test-vm test clean libc chromium FORCE

help: ## show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the binaries into bin/
	$(GO) build -trimpath -ldflags='$(LDFLAGS)' -o $(BIN)/ ./cmd/...

unit: ## the quick loop: all tests that need no cluster
	$(TESTSUM) standard-quiet -- ./...
	$(GO) -C build/mkimage test ./...
	$(GO) -C test/chart test ./...

# CI runs the same under the race detector, which needs cgo, and nothing of it is
# skipped.
race: libc chromium ## the quick loop under the race detector
	NADRA_LANE=ci CGO_ENABLED=1 $(TESTSUM) standard-quiet -- -race ./...
	$(GO) -C build/mkimage test ./...
	$(GO) -C test/chart test ./...

# FUZZTIME is how long each of them runs, two at a time.
FUZZTIME ?= 30s
fuzz: ## let every fuzz target look for what breaks it
	@grep -rH --include='*_test.go' '^func Fuzz' pkg internal cmd | \
		sed 's|^\(.*\)/[^/]*:func \(Fuzz[A-Za-z0-9]*\)(.*|\2 ./\1|' | \
		xargs -P 2 -n 2 sh -c '$(GO) test -run "^$$" -fuzz "^$$0$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x -parallel 1 "$$1"'

lint: ## static checks and formatting
	$(TOOL) golangci-lint run --allow-serial-runners ./...
	$(TOOL) golangci-lint fmt --diff ./...

# The database of vulnerabilities is on the network, and the target says loudly
# when it cannot be read: then nothing was checked. VULNDB is a mirror of it.
vulncheck: ## known vulnerabilities in what is linked, by https://vuln.go.dev
	@$(GO) build -modfile=$(CURDIR)/build/tools/go.mod -o $(BIN)/govulncheck golang.org/x/vuln/cmd/govulncheck
	@$(BIN)/govulncheck $(if $(VULNDB),-db $(VULNDB)) ./... || { code=$$?; \
		[ $$code = 3 ] || echo 'vulncheck: NOTHING WAS CHECKED' >&2; exit $$code; }

image: $(BIN)/nadra-node.tar $(BIN)/nadra-controller.tar ## write the images' archives, bin/nadra-node.tar and bin/nadra-controller.tar

$(BIN)/nadra-node.tar: build
	$(GO) -C build/mkimage build -o $(BIN)/mkimage .
	$(BIN)/mkimage -o $@ -t $(IMAGE) -entrypoint /nadra-node /nadra-node=$(BIN)/nadra-node /nadra-gate=$(BIN)/nadra-gate

# Nothing in it needs root, and the manifests do not run it as root.
$(BIN)/nadra-controller.tar: $(BIN)/nadra-node.tar
	$(BIN)/mkimage -o $@ -t $(CONTROLLER_IMAGE) -entrypoint /nadra-controller /nadra-controller=$(BIN)/nadra-controller

# COMMIT is Git's HEAD unless given, and then nothing may be changed in the tree.
REGISTRY ?= ghcr.io/nadra-dev
release: ## VERSION=v0.1.0: images, kubectl-nadra, chart, manifests, SBOMs and sums into dist/
	$(GO) -C build/release run . -version '$(VERSION)' -commit '$(COMMIT)' -registry '$(REGISTRY)' -source $(CURDIR) -out $(CURDIR)/dist

release-check: ## a release made in two folders is the same, and what it should be
	$(GO) -C build/release test -count=1 ./...

# The driver with fail points and the race detector, for the fault suite only.
$(BIN)/faults/nadra-node.tar: image libc
	CGO_ENABLED=1 $(GO) build -race -tags failpoints -ldflags='$(LDFLAGS) -linkmode external -extldflags "-static -Wl,--no-warnings"' \
		-o $(BIN)/faults/ ./cmd/nadra-node
	$(BIN)/mkimage -o $@ -t $(IMAGE) -entrypoint /nadra-node /nadra-node=$(BIN)/faults/nadra-node /nadra-gate=$(BIN)/nadra-gate

$(CLUSTER): FORCE
	@$(GO) build -o $@ ./test/cluster/cmd/nadra-cluster

cluster-up: $(CLUSTER) image ## build (once) and start the real cluster, with nadra's image on it
	$(CLUSTER) up -image $(BIN)/nadra-node.tar

cluster-down: $(CLUSTER) ## stop the cluster and leave nothing behind
	$(CLUSTER) down

demo: image $(CLUSTER) ## bring up a cluster and show a pod with its macvlan from an unchanged NAD
	@$(GO) run ./test/demo

e2e: image ## the same and much more as tests, on a real cluster of their own
	$(TESTSUM) standard-verbose -- $(E2E) -count=1 -p 1 -timeout 40m ./test/cluster/... ./test/e2e/...

e2e-dropin: image ## two nodes, Multus on one, nadra on the other: annotated pods go over unchanged, and back
	$(TESTSUM) standard-verbose -- $(E2E) -count=1 -timeout 20m ./test/dropin/...

# CASE is a regular expression for the names of the tests to run; default all.
e2e-ipam: image ## two nodes with the real whereabouts and the real dhcp: no address is given twice, lost or left over
	@code=0; mkdir -p $(BIN)/ipam; $(GO) test $(E2E) -count=1 -timeout 40m -parallel 5 -v $(if $(CASE),-run '$(CASE)') ./test/ipam \
		| tee $(BIN)/ipam/log || code=$$?; \
		grep -E '^(dhcp|multus|nadra|whereabouts): ' $(BIN)/ipam/log; exit $$code

e2e-upgrade: image ## two nodes under Multus move to nadra, and back, by kubectl nadra upgrade
	$(TESTSUM) standard-verbose -- $(E2E) -count=1 -timeout 30m ./test/upgrade/...

# CASE is a regular expression for the names of the cases to run; default all.
conformance: build ## Multus and nadra side by side, with the same pods; their differences against docs/compatibility.md
	@code=0; mkdir -p $(BIN)/conformance; \
		$(GO) test $(E2E) -count=1 -timeout 30m -v $(if $(CASE),-run 'TestConformance/$(CASE)') ./test/conformance \
		| tee $(BIN)/conformance/log || code=$$?; \
		grep '^conformance: cases=' $(BIN)/conformance/log | tail -1; exit $$code

# FAULT_PODS is how many pod lives, FAULT_SEED which schedule; it is printed.
faults: $(BIN)/faults/nadra-node.tar ## pods come and go on a real cluster while everything fails at random
	@code=0; $(GO) test $(E2E) -count=1 -timeout 90m -v ./test/faults/... | tee $(BIN)/faults/log || code=$$?; \
		grep '^fault-suite:' $(BIN)/faults/log | tail -1; exit $$code

faults-newest-nri: $(BIN)/faults/nadra-node.tar ## the same with the newest NRI in containerd, with fewer pods
	@code=0; FAULT_NRI=newest FAULT_PODS=$${FAULT_PODS:-100} \
		$(GO) test $(E2E) -count=1 -timeout 60m -v -run 'TestFaults$$' ./test/faults/... | tee $(BIN)/faults/newest-nri.log || code=$$?; \
		grep '^fault-suite:' $(BIN)/faults/newest-nri.log | tail -1; exit $$code

monitoring: ## alerts and dashboards against Debian's Prometheus, which is unpacked into bin/
	$(TESTSUM) standard-verbose -- $(E2E) -count=1 -timeout 10m ./test/monitoring

# SRIOV_CNI=/path/to/sriov gives the lane that plugin; without it its cases count
# as not run. NADRA_VM_HOLD=1 keeps the machine after the tests, for a person.
test-vm: image ## a QEMU guest with SR-IOV cards as a node: VFs, RDMA and plugins that need a kernel of their own
	@code=0; mkdir -p $(BIN)/vm; $(GO) test $(E2E) -count=1 -timeout 15m -v $(if $(CASE),-run '$(CASE)') ./test/vm \
		| tee $(BIN)/vm/log || code=$$?; \
		grep '^vm-lane: cases=' $(BIN)/vm/log | tail -1; exit $$code

# It takes more than an hour. BENCH_RESUME=1 goes on with a run that was cut off;
# BENCH_CHURN is how long pods come and go (10m), BENCH_SCALE the simulated
# clusters' nodes (1000,5000).
bench: image ## measure, beside Multus; writes docs/performance.md and .json
	$(GO) test $(E2E) -count=1 -timeout 100m -run '^$$' -bench . ./test/bench/...

# A lane that fails stops none of the others. The table at the end has their times.
LANES := lint race release-check fuzz monitoring e2e e2e-dropin e2e-ipam e2e-upgrade conformance faults faults-newest-nri test-vm
test: ## everything that CI runs
	@$(GO) run ./build/lanes $(LANES)

clean: ## remove build results of this tree (the cache of the cluster's parts stays)
	rm -rf $(BIN)

# What gcc alone lacks on a fresh machine.
libc:
	@echo 'int main(void) { return 0; }' | gcc -x c -static -o /dev/null - 2>/dev/null || \
		{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends libc6-dev; }

# The browser in which the report's page is looked at.
chromium:
	@command -v chromium >/dev/null || \
		{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; }

FORCE:
