# `make help` lists the targets. On a fresh Debian machine with Go, git and gcc, each
# target installs what else it needs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED ?= 0
# Manifests of other projects, for the tests that read them if they are present.
ifneq ($(wildcard $(CURDIR)/../shared/corpus/open),)
export NADRA_CORPUS ?= $(CURDIR)/../shared/corpus/open
endif

BIN     := $(CURDIR)/bin
IMAGE   ?= localhost/nadra-node:dev
CONTROLLER_IMAGE ?= localhost/nadra-controller:dev
CNI_PLUGINS_IMAGE ?= localhost/nadra-cni-plugins:dev
LDFLAGS := -s -w
GO      := go
TESTSUM  = $(TOOL) gotestsum --format
TOOL    := $(GO) tool -modfile=$(CURDIR)/build/tools/go.mod
CLUSTER := $(BIN)/nadra-cluster
# Tests that start a cluster, which needs root and some minutes.
E2E     := -tags e2e

.PHONY: help build core-parts unit race fuzz lint vulncheck image cni-plugins release release-check cluster-up cluster-down demo parts e2e e2e-node e2e-crio e2e-containerd-2.3 e2e-containerd-2.2 e2e-elsewhere e2e-ipv6 e2e-dual e2e-beside e2e-dropin e2e-core core core-faults e2e-emulated e2e-kubernetes e2e-ipam e2e-kubevirt e2e-autoscalers e2e-compose e2e-bare e2e-upgrade e2e-skew e2e-attacks conformance faults faults-newest-nri faults-crio monitoring bench test-vm test lanes test-long prune clean libc chromium mkdocs filesystems docs pictures FORCE

help: ## show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Without -trimpath, which releases have, tests use the same compiled packages.
build: ## build the binaries into bin/
	@build/compile -ldflags='$(LDFLAGS)' -o $(BIN)/ ./cmd/...

# PKG names the packages, and RUN the tests by a regular expression, that a target of
# tests runs; the default is all.
TESTS = $(if $(RUN),-run '$(RUN)')
# Go's cache of results does not see the manifests, which are outside of test/chart's module.
define modules-of-their-own
$(if $(PKG),,$(GO) -C build/mkimage test $(TESTS) ./...)
	$(if $(PKG),,$(GO) -C test/chart test -count=1 $(TESTS) ./...)
endef

# Beside race, those packages' tests do not run twice.
UNIT = $(if $(RACED),$(filter-out $(CONCURRENT),$(shell $(GO) list ./... | sed 's|^github.com/nadra-dev/nadra|.|')),./...)
unit: ## the quick loop: all tests that need no cluster
	@mkdir -p $(BIN)/lanes
	@$(TESTSUM) standard-quiet --jsonfile $(BIN)/lanes/$@.json -- $(TESTS) $(or $(PKG),$(UNIT))
	$(modules-of-their-own)

docs: mkdocs chromium ## build the site of docs/ into bin/site, check its links, and look at it in Chromium
	cd build/site && PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 mkdocs build --quiet
	go test ./test/site
	@echo "bin/site/index.html; its search needs a server: python3 -m http.server -d bin/site"

pictures: ## make the pictures of docs/ from their text again, with graphviz
	@command -v dot >/dev/null || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends graphviz; }
	for f in docs/pictures/*.dot; do dot -Tsvg $$f -o $${f%.dot}.svg; done

# The packages whose code starts goroutines or locks. The race detector needs cgo. Beside four clusters a
# package has taken more than go test's ten minutes.
CONCURRENT = $(shell grep -lrP --include='*.go' --exclude='*_test.go' '\bgo func|\.Go\x28|"sync(/atomic)?"' cmd internal pkg | xargs -n 1 dirname | sort -u | sed 's|^|./|')
race: libc filesystems ## the quick loop's concurrent packages under the race detector
	@mkdir -p $(BIN)/lanes
	NADRA_LANE=ci CGO_ENABLED=1 $(TESTSUM) standard-quiet --jsonfile $(BIN)/lanes/$@.json -- -race -timeout 40m $(TESTS) $(or $(PKG),$(CONCURRENT))

# FUZZTIME is how long each target runs, two at a time: a number of inputs, such as
# 500x, or a time, such as 10m. They begin with the inputs in the source; with
# FUZZCACHE= also with those that earlier runs found, which may be thousands.
FUZZTIME ?= 500x
FUZZCACHE ?= $(BIN)/fuzz
# Not a lane of `make lanes`: instrumented packages take longer to compile than the inputs to run, which unit does.
fuzz: ## run every fuzz target
	@rm -rf $(BIN)/fuzz && mkdir -p $(BIN)/fuzz
	@grep -rH --include='*_test.go' '^func Fuzz' pkg internal cmd | \
		sed 's|^\(.*\)/[^/]*:func \(Fuzz[A-Za-z0-9]*\)(.*|\2 ./\1|' | \
		xargs -P 2 -n 2 sh -c '$(GO) test -run "^$$" -fuzz "^$$0$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x -parallel 1 "$$1" $(if $(FUZZCACHE),-args -test.fuzzcachedir=$(FUZZCACHE))'

lint: ## static checks and formatting
	$(TOOL) golangci-lint run --allow-serial-runners ./...
	$(TOOL) golangci-lint fmt --diff ./...

figures: ## the sizes of files, functions and types, and the share of comments that say what something is
	@$(GO) test ./test/words -run '^TestFigures$$' -count 1 -v | sed -n '/lines of files/,/^---/p' | grep -v '^---'

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

# No program in it needs root, and the manifests do not run it as root.
$(BIN)/nadra-controller.tar: $(BIN)/nadra-node.tar
	$(BIN)/mkimage -o $@ -t $(CONTROLLER_IMAGE) -entrypoint /nadra-controller /nadra-controller=$(BIN)/nadra-controller

cni-plugins: $(BIN)/nadra-cni-plugins.tar ## write the archive of the image with the reference CNI plugins, bin/nadra-cni-plugins.tar

$(BIN)/nadra-cni-plugins.tar: $(BIN)/nadra-node.tar
	$(GO) -C build/cni-plugins build -trimpath -buildvcs=false -ldflags='$(LDFLAGS)' -o $(BIN)/cni-plugins/ tool
	$(BIN)/mkimage -o $@ -t $(CNI_PLUGINS_IMAGE) $(foreach p,$(shell sed -n 's|^	github.com/.*/plugins/.*/||p' build/cni-plugins/go.mod),/$(p)=$(BIN)/cni-plugins/$(p))

# COMMIT is the commit of the release; by default Git's HEAD, and then the tree must be clean.
# KEY is the file of a private key to sign with, FIPS140 Go's FIPS 140-3 module: docs/develop/releasing.md.
# PLATFORM, such as linux_amd64, is the only one to build for.
REGISTRY ?= ghcr.io/nadra-dev
release: ## VERSION=v0.1.0: images, kubectl-nadra, chart, manifests, SBOMs, provenance and sums into dist/
	$(GO) -C build/release run . -version '$(VERSION)' -commit '$(COMMIT)' -registry '$(REGISTRY)' -key '$(abspath $(KEY))' -fips140 '$(FIPS140)' -platform '$(PLATFORM)' -source $(CURDIR) -out $(CURDIR)/dist

# A release for this machine, signed with a key of its own, for the move without a network.
AIRGAP := $(BIN)/airgap
$(AIRGAP)/dist: FORCE
	@rm -rf $(AIRGAP) && mkdir -p $(AIRGAP)/source
	@git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- -c | tar -x -C $(AIRGAP)/source
	@openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out $(AIRGAP)/cosign.key
	@openssl pkey -in $(AIRGAP)/cosign.key -pubout -out $(AIRGAP)/source/cosign.pub
	$(GO) -C build/release run . -version v0.1.0 -commit "$$(git rev-parse HEAD)" -platform "linux_$$($(GO) env GOARCH)" -key $(AIRGAP)/cosign.key -source $(AIRGAP)/source -out $@

release-check: $(BIN)/qemu/usr/bin/qemu-aarch64-static ## build a release in two folders, compare them, and check the result
	NADRA_QEMU=$< $(GO) -C build/release test -count=1 -timeout $(LIMIT) ./...

# The emulator that runs programs for arm64. It is unpacked, not installed, because the
# installed package registers itself with the kernel.
$(BIN)/qemu/usr/bin/qemu-aarch64-static:
	@mkdir -p $(BIN)/qemu
	@cd $(BIN)/qemu && fetch='apt-get -q -o APT::Sandbox::User=root download qemu-user-static' && \
		{ $$fetch || { apt-get update -q && $$fetch; }; } && \
		dpkg-deb --fsys-tarfile qemu-user-static_*.deb | tar -x --touch ./usr/bin/$(@F) && rm qemu-user-static_*.deb

# The programs, which accept approved cryptography only: the images' environment says so, and a script's that
# is in kubectl-nadra's place. With MORE they have the module of `make release FIPS140=v1.0.0`, for which Go
# compiles all packages again; otherwise that of the Go release.
FIPS := $(BIN)/fips140
APPROVED := $(if $(MORE),$(FIPS)/programs,$(BIN))
$(FIPS)/nadra-node.tar: image FORCE
	@mkdir -p $(FIPS)
	$(if $(MORE),GOFIPS140=v1.0.0 $(GO) build -trimpath -ldflags='$(LDFLAGS)' -o $(APPROVED)/ ./cmd/...)
	$(BIN)/mkimage -o $@ -t $(IMAGE) -env GODEBUG=fips140=only -entrypoint /nadra-node /nadra-node=$(APPROVED)/nadra-node /nadra-gate=$(APPROVED)/nadra-gate
	$(BIN)/mkimage -o $(FIPS)/nadra-controller.tar -t $(CONTROLLER_IMAGE) -env GODEBUG=fips140=only -entrypoint /nadra-controller /nadra-controller=$(APPROVED)/nadra-controller
	@printf '#!/bin/sh\nGODEBUG=fips140=only exec %s "$$@"\n' $(APPROVED)/kubectl-nadra >$(FIPS)/kubectl-nadra && chmod +x $(FIPS)/kubectl-nadra

# The driver with fail points and the race detector, only for the fault suite.
$(BIN)/faults/nadra-node.tar: image libc
	CGO_ENABLED=1 $(GO) build -race -tags failpoints -ldflags='$(LDFLAGS) -linkmode external -extldflags "-static -Wl,--no-warnings"' \
		-o $(BIN)/faults/ ./cmd/nadra-node
	$(BIN)/mkimage -o $@ -t $(IMAGE) -entrypoint /nadra-node /nadra-node=$(BIN)/faults/nadra-node /nadra-gate=$(BIN)/nadra-gate

$(CLUSTER): FORCE
	@build/compile -o $@ ./test/cluster/cmd/nadra-cluster

cluster-up: $(CLUSTER) image ## build (once) and start the real cluster, with nadra's image on it
	$(CLUSTER) up -image $(BIN)/nadra-node.tar

cluster-down: $(CLUSTER) ## stop the cluster and leave nothing behind
	$(CLUSTER) down

# Kubernetes is built first, because nadra needs many of its packages, and its build says how far it is.
demo: $(CLUSTER) ## start a cluster and show a pod with its macvlan from an unchanged NAD
	@$(CLUSTER) build
	@$(MAKE) --no-print-directory image
	@$(GO) run ./test/demo

# RECORD=1 writes the result of each lane with a cluster into RUNS, for docs/reference/support.md. The
# result is that of a commit and of a whole lane, so changes and parts are refused.
RUNS := docs/reference/support-runs.json
ifdef RECORD
ifndef RECORD_COMMIT
ifneq ($(strip $(RUN) $(PKG) $(MULTUS) $(NADRA_MULTUS) $(NADRA_FEATURE_GATES)),)
$(error RECORD=1 records whole lanes: leave out RUN, PKG, MULTUS, NADRA_MULTUS and NADRA_FEATURE_GATES)
endif
ifneq ($(shell git status --porcelain -- . ':!$(RUNS)'),)
$(error RECORD=1 records the result of a commit: commit your changes first)
endif
export RECORD_COMMIT := $(shell git rev-parse --short=10 HEAD)
endif
endif

# Runs tests on clusters: those of $(1), with go test's arguments $(2). Their whole output is
# in bin/lanes/TARGET.json; FORMAT is gotestsum's format of the printed part, and `make lanes`
# prints names and failures only. The targets unit, lint and race vet and keep debug information.
# $(3) is the beginning of the lines with a lane's figures, which are printed again at the end,
# before the number of its tests.
# LIMIT ends a lane that hangs. On a busy machine a lane has taken more than 30 minutes.
FORMAT ?= standard-verbose
LIMIT ?= 75m
define on-clusters
@mkdir -p $(BIN)/lanes; code=0; \
	$(TESTSUM) $(FORMAT) --jsonfile $(BIN)/lanes/$@.json -- $(E2E) -count=1 -vet=off -timeout $(LIMIT) -ldflags='-s -w' $(2) $(TESTS) $(or $(PKG),$(1)) || code=$$?; \
	$(if $(3),sed -nE 's/.*"Output":"(($(3)): [a-z]+=.*)\\n"\}$$/\1/p' $(BIN)/lanes/$@.json | tail -n 4;) \
	flock $(BIN)/lanes $(GO) run ./build/record -code $$code $(if $(RECORD),-runs $(RUNS) -commit $(RECORD_COMMIT)) $(BIN)/lanes/$@.json; exit $$code
endef

# The tests of ./test/e2e take 10 minutes one after another: they change the only node
# of their cluster. `make lanes` runs them as two lanes, each with a cluster of its own.
BESIDE_NODES := ^Test(Bundle|Chart|Cleanup|Controller|Conver|Corpus|Doctor|Documented|Examples|Inspect|Kubectl|Snapshot)
e2e: image ## tests on a real cluster of one node
	$(call on-clusters,./test/cluster/... ./test/e2e/...,-p 1)

e2e-node: image ## the tests of e2e about the driver on a node
	$(call on-clusters,./test/cluster/... ./test/e2e/...,-p 1 -skip '$(BESIDE_NODES)$(PROMISED)')

# With CI's other lanes only the tests in which runtimes differ; RUN=. runs all.
OF_RUNTIMES := ^Test(NetworksOfRunningPods|Path|OrderOverTwoClaims|Restarts|PowerOn|ManyNetworks|DefaultRoute|HostNetwork|RuntimeRestartKeepsPods|Gate.*|UngatedPodIsRefused|UnclaimedPodsAreRefused|PodsOfThinMultusAreAdopted|PodsWithoutAClaim.*|RequiredDriver.*|Doctor|DeviceHealth|DeletionReleasesTheGate|DELHasTheNamespaceThatTheRuntimeRemoved|NetworkStatusRefused|Burst)$$
# Its cluster has IPv6 only, and its test of adoption the newest older release of Multus, so that each run has both.
e2e-crio: export NADRA_RUNTIME := crio
e2e-crio: export NADRA_MULTUS := 4.2
e2e-crio: export NADRA_FAMILIES := ipv6
e2e-crio: ## one node with CRI-O in place of containerd: the tests of e2e in which runtimes differ
# An older release's newest version, which is built first.
e2e-containerd-2.3 e2e-containerd-2.2: export NADRA_CONTAINERD = $(@:e2e-containerd-%=%)
e2e-crio e2e-containerd-2.3 e2e-containerd-2.2: image
	$(call on-clusters,./test/e2e/...,-p 1 $(if $(RUN),,-run '$(OF_RUNTIMES)|^TestFamilies$$'))

# With the tests that name directories, that show each promise, and of plugins' STATUS.
OF_LAYOUTS = $(OF_RUNTIMES)|$(OF_PROMISES)|^Test(APIServerAway.*|StatusWithdraws.*|BadInput|BrokenDelLetsThePodGo|Chart|Cleanup|DamagedRecord|Layout|NetworkOfAFile)$$
e2e-elsewhere: export NADRA_LAYOUT := elsewhere
e2e-elsewhere: image $(BIN)/nadra-cni-plugins.tar ## one node with a read-only root, the directories of kubelet, NRI, CDI, CNI and nadra elsewhere, and plugins from an image
	$(call on-clusters,./test/e2e/...,-p 1 $(if $(RUN),,-run '$(OF_LAYOUTS)'))

# The tests that name addresses; with MORE those in which runtimes differ, and of the controller.
OF_FAMILIES := $(if $(MORE),$(OF_RUNTIMES)|^Test(Chart|Controller|Inspect.*|RequestedValues)$$|)^Test(DefaultRoute|Families|Path)$$
e2e-ipv6: export NADRA_FAMILIES := ipv6
e2e-ipv6: ## one node of a cluster that has IPv6 only
e2e-dual: export NADRA_FAMILIES := dual
e2e-dual: ## one node of a cluster with IPv4 and IPv6
e2e-ipv6 e2e-dual: image
	$(call on-clusters,./test/e2e/...,-p 1 $(if $(RUN),,-run '$(OF_FAMILIES)'))

# Its cluster has both address families, so it also runs the tests that name addresses, of which core has run two with IPv4 only.
e2e-beside: export NADRA_FAMILIES := dual
e2e-beside: image ## the tests of e2e about controller, webhook, chart, kubectl nadra, examples and the corpus; IPv4 and IPv6
	$(call on-clusters,./test/e2e/...,$(if $(RUN),,-run '$(BESIDE_NODES)|$(OF_FAMILIES)' -skip '^$$$(subst |DefaultRoute|,|,$(subst |Path|,|,$(PROMISED)))'))

# BESIDE_PODS is the number of pods beside Multus, BESIDE_SEED the schedule, which is printed.
e2e-dropin: image ## Multus on one node and nadra on the other, and both on one: annotated pods move to nadra unchanged, and back
	$(call on-clusters,./test/dropin/... ./test/beside/...,-p 1 -skip '^$$$(PROMISED)',beside-lane)

# What `make test` runs on clusters: each promise of the README at least once, beside real Multus where it is about
# Multus. `make lanes` does not run these tests again, apart from those that name addresses.
OF_PROMISES := ^Test(BadInput|ConvertOnALiveCluster|DefaultRoute|FullRangeStopsScheduling|GateHoldsWithoutTheDriver|HealthyPodsAreNotReported|NodeChangesHands|Path|PoolsAndClaimsOfOthers|SameDeploymentOnBothSides|StatusWithdrawsANetwork)$$
core: image ## the tests of e2e and of drop-in that show each promise once
	$(call on-clusters,./test/e2e ./test/dropin,-p 1 $(if $(RUN),,-run '$(OF_PROMISES)'))

# The tests whose outcome may depend on the version of Kubernetes, or on its feature gates.
CORE := ^Test(BadInput|Burst|Check|Controller|ConvertOnALiveCluster|DaemonSetOnBothNodes|DefaultRoute|DeviceHealth|Doctor|FIPS140|FullRange|Gate|KubectlFinds|ManyNetworks|NamedClaimMoves|NodeChangesHands|OrderOverTwoClaims|Path|Pools|RequestedValues|SameDeployment|SameNetworkTwice|SlicesFollow|StatusWithdraws|SwitchTouches|Ungated)

# NADRA_KUBERNETES, NADRA_KUBELET, NADRA_EMULATE and NADRA_FEATURE_GATES choose what it runs on. The
# programs for NADRA_FIPS140=1 are made by e2e-emulated.
e2e-core: ## the tests of e2e and of drop-in that depend on the version of Kubernetes
# One cluster for two questions that do not meet: what the API server offers, and nadra's cryptography.
e2e-emulated: export NADRA_EMULATE := 1.34
e2e-emulated: export NADRA_FIPS140 := 1
e2e-emulated: $(FIPS)/nadra-node.tar ## e2e-core on a control plane that emulates Kubernetes 1.34, with nadra's programs under fips140=only
e2e-core: image
	$(call on-clusters,./test/e2e ./test/dropin,-p 1 $(if $(RUN),,-run '$(CORE)'))
# Without MORE not those that only the kubelet, the runtime and plugins decide, which are not older there.
OF_NODES := ^Test(Burst|Check|DefaultRoute|ManyNetworks|SameNetworkTwice|Ungated)
e2e-emulated: image
	$(call on-clusters,./test/e2e $(if $(MORE),./test/dropin),-p 1 $(if $(RUN),,-run '$(CORE)' $(if $(MORE),,-skip '$(OF_NODES)')))

# Each version is built first, which takes two cores 12 minutes and more.
VERSIONS := 1.34 1.35 1.36 kubelet-1.36 kubelet-1.35
e2e-kubernetes: image ## e2e-core on each of VERSIONS of Kubernetes, older control planes and older kubelets
	@build/kubernetes-versions e2e-core $(VERSIONS)

# BURST_PODS is the number of pods of a burst.
e2e-ipam: image ## two nodes with the real whereabouts and the real dhcp: no address is given twice, lost or left over
	$(call on-clusters,./test/ipam,-parallel 5,dhcp|multus|nadra|whereabouts)

e2e-kubevirt: image ## two nodes with the real virt-api and virt-controller of KubeVirt: launcher pods, migration, hotplug
	$(call on-clusters,./test/kubevirt,-parallel 4,vm-launchers)

e2e-autoscalers: image ## one node beside the real Karpenter with its provider kwok: pods with networks get nodes, or not
	$(call on-clusters,./test/autoscalers,,autoscalers)

e2e-compose: $(BIN)/faults/nadra-node.tar ## one node: networks run on interfaces that another DRA driver allocates in the same claim
	$(call on-clusters,./test/compose,,compose)

e2e-bare: image $(BIN)/nadra-cni-plugins.tar ## one node with a read-only root and no CNI plugins for nadra: they are in an image
	$(call on-clusters,./test/bare,,bare)

e2e-skew: image ## one node: nadra is replaced by another version of nadra, and back, while pods come and go
	$(call on-clusters,./test/skew,,skew)

# ATTACK_PODS is the number of pods on a slow network.
e2e-attacks: image ## two nodes: attackers try, each with their own rights, what docs/security/threat-model.md promises to refuse
	$(call on-clusters,./test/attacks,,attacks)

# UPGRADE_MATRIX is a regular expression of the cells of TestAnyStepFails, such as 'disk full in adopt'; . is
# all, as in `make test-long`. The default is five by UPGRADE_SEED, which is printed.
e2e-upgrade: image $(AIRGAP)/dist ## two nodes under Multus move to nadra, and back, by kubectl nadra upgrade
	$(call on-clusters,./test/upgrade/...,,upgrade-lane|upgrade-matrix)

conformance: build ## give the same pods to Multus and nadra, and compare their differences with docs/reference/compatibility.md
	$(call on-clusters,./test/conformance,,conformance)

# FAULT_PODS is the number of pod lives, FAULT_SEED the schedule, which is printed.
faults: $(BIN)/faults/nadra-node.tar ## pods come and go on a real cluster while everything fails at random
	$(call on-clusters,./test/faults/...,,fault-suite|upstream)

# With another containerd than faults, so that each CI run has both.
core-faults: export FAULT_PODS := $(or $(FAULT_PODS),20)
core-faults: export NADRA_CONTAINERD := newest-nri
core-faults: $(BIN)/faults/nadra-node.tar ## some pods of it, with the newest NRI in containerd, for `make test`
	$(call on-clusters,./test/faults,-run '^TestFaults$$',fault-suite|upstream)

faults-newest-nri: export NADRA_CONTAINERD := newest-nri
faults-newest-nri: ## the same with the newest NRI in containerd, with fewer pods
faults-crio: export NADRA_RUNTIME := crio
faults-crio: ## the same with CRI-O, with fewer pods
faults-newest-nri faults-crio: export FAULT_PODS := $(or $(FAULT_PODS),60)
faults-newest-nri faults-crio: export FAULT_EDITS := $(or $(FAULT_EDITS),200)
faults-newest-nri faults-crio: $(BIN)/faults/nadra-node.tar
	$(call on-clusters,./test/faults/...,-run 'Test(Faults|EditsUnderFaults)$$',fault-suite|upstream)

monitoring: ## alerts and dashboards against Debian's Prometheus, which is unpacked into bin/
	$(call on-clusters,./test/monitoring)

# SRIOV_CNI=/path/to/sriov names the plugin; without it, its cases count as not run.
# SRIOV_DEVICE_PLUGIN=/path/to/sriovdp takes the place of the lane's own device plugin.
# NADRA_VM_HOLD=1 keeps the machine after the tests.
test-vm: image ## a QEMU guest with SR-IOV cards as a node: VFs, RDMA and plugins that need another kernel
	$(call on-clusters,./test/vm,,vm-lane|vm-numa)

# It takes more than an hour. BENCH_RESUME=1 continues an interrupted run, and BENCH_RESUME=published takes all
# figures but those of the benchmarks that run from performance.json, as with `go test -bench BenchmarkScale`;
# BENCH_CHURN is the time of the churn measurement (10m), BENCH_SCALE the simulated
# clusters' nodes (1000,5000).
bench: image $(CLUSTER) ## measure nadra beside Multus; writes docs/reference/performance.json and its pages
	NADRA_INLINE=1 $(CLUSTER) build
	$(GO) test -count=1 -timeout 100m -run '^$$' -bench . ./test/bench/...

# What several targets need. It is built first and alone, and no target builds it again: two would write the
# same files.
PARTS := build image $(BIN)/faults/nadra-node.tar libc chromium mkdocs filesystems
core-parts: $(PARTS) $(CLUSTER) ## build what `make test` needs: programs, images, Kubernetes and containerd
	$(CLUSTER) build
	NADRA_CONTAINERD=newest-nri $(CLUSTER) build
parts: core-parts $(AIRGAP)/dist ## build what `make lanes` needs: also CRI-O and a release, whose packages release-check needs, too
	NADRA_RUNTIME=crio $(CLUSTER) build

# Lanes with clusters wait more than they compute, so several of them run side by side,
# the longest first. The lanes that only compute fill the gaps. A lane that fails stops
# no other. CLUSTERS is how many clusters there are at a time.
CLUSTERS ?= 4
CLUSTER_LANES := test-vm e2e-upgrade e2e-node e2e-emulated e2e-beside faults e2e-ipam e2e-dropin e2e-crio conformance e2e-attacks e2e-skew e2e-compose e2e-kubevirt e2e-autoscalers faults-crio e2e-bare
COMPUTE_LANES := release-check monitoring
LANES = $(BIN)/run-lanes -logs $(BIN)/lanes -built '$(PARTS) $(AIRGAP)/dist'
$(BIN)/run-lanes: FORCE
	@$(GO) build -o $@ ./build/lanes

# No test of unit is skipped here: what it needs is installed.
test: export NADRA_LANE := ci
test: export RACED := 1
test: $(BIN)/run-lanes $(CLUSTER) ## before each commit: the quick loop, races, lint, each promise on a cluster, and a short fault run
	@$(CLUSTER) prune
	@exec $(LANES) -first core-parts -clusters 2 -fill 'race unit lint' core core-faults

lanes: export PROMISED := $(if $(RECORD),,|$(OF_PROMISES))
lanes: $(BIN)/run-lanes $(CLUSTER) ## all other lanes: CI runs `make test`, and then these
	@exec $(LANES) -first parts -clusters $(CLUSTERS) -fill '$(COMPUTE_LANES)' $(CLUSTER_LANES)

# One lane after another, because the benchmark measures. It takes a night.
test-long: export LIMIT := 4h
test-long: export MORE := 1
test-long: export UPGRADE_MATRIX := .
test-long: export FAULT_PODS := 1000
test-long: export FAULT_HANDLE_LIVES := 1000
test-long: export CONVERT_REPOSITORIES := 1000
test-long: export BURST_PODS := 100
test-long: export FUZZTIME := 10m
test-long: export FUZZCACHE :=
test-long: $(BIN)/run-lanes ## tests that take hours: 1,000 pod lives, bursts of 100 pods, 1,000 converted repositories, older Kubernetes and containerd, other nodes, long fuzzing, the benchmark
	@exec $(LANES) -first parts faults faults-newest-nri faults-crio e2e-ipam e2e-containerd-2.3 e2e-containerd-2.2 e2e-elsewhere e2e-ipv6 e2e-dual e2e-emulated e2e-kubernetes e2e-upgrade release-check race fuzz bench

prune: $(CLUSTER) ## remove built components that nothing has used for a week, and show the size of the caches
	@$(CLUSTER) prune

clean: ## remove build results of this tree (the cache of the cluster's parts stays)
	rm -rf $(BIN)

# The C library's headers, which gcc lacks on a fresh machine.
libc:
	@echo 'int main(void) { return 0; }' | gcc -x c -static -o /dev/null - 2>/dev/null || \
		{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends libc6-dev; }

# The browser that tests the report's page.
chromium:
	@command -v chromium >/dev/null || \
		{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium; }

# The file systems of the test that cuts the power.
filesystems:
	@command -v mkfs.ext4 >/dev/null && command -v mkfs.xfs >/dev/null || \
		{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends e2fsprogs mount xfsprogs; }

FORCE:

mkdocs:
	@command -v mkdocs >/dev/null && test -d /usr/lib/python3/dist-packages/material || \
		{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends mkdocs mkdocs-material; }
