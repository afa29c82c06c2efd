// Package driver connects the kubelet (DRA) and the container runtime (NRI) to network
// attachments on this node. Prepare does everything that needs no network namespace: it finds
// the NAD, renders the conflist, checks plugins and master, and writes a record with
// pkg/checkpoint. The sandbox hook reads the record, runs the plugins with pkg/cniexec and
// records their results. No request to the API server is between the two.
//
// The driver and its parts:
//
//	config.go       settings and clients
//	environment.go  what the driver works with on its node: state, plugins, namespaces, links
//	wire.go         makes the parts, each after the parts that it needs
//	driver.go       starts and stops the parts
//	start.go        what comes before: the state directory, and what is read first
//	successor.go    takes the place of another driver: one at a time has the state directory
//	predecessor.go  hands over to the next driver
//
// What the kubelet calls:
//
//	kubeletplugin.go      Prepare and Unprepare of claims
//	prepare.go            records and gates of claims
//	movedclaims.go        claims that have passed to another pod, and the kubelet does not prepare again
//	planner.go            resolves claims against NADs and hardware
//	planunclaimed.go      resolves the networks of pods without a claim
//	claims.go             reads ResourceClaims
//	extendedresources.go  pairs extended resources with the networks of the pod's annotation
//	otherdriverdevice.go  finds devices of other DRA drivers
//	deviceinuse.go        waits until a device is free
//	containerclaims.go    refuses pods with containers that no gate would hold
//	unprepare.go          detaches claims and removes their records
//	unprepared.go         remembers unprepared claims, for calls that were overtaken
//	features.go           what the API server keeps of slices
//	firsttimes.go         remembers when something was first seen
//	metadata.go           describes devices to the kubelet and in containers' files
//	devicehealth.go       decides the health of devices
//	devicehealthwatch.go  reports it
//	podretrigger.go       makes the kubelet retry pods after a registration
//
// What the runtime calls:
//
//	nri.go              the connection
//	nrilog.go           its log
//	runtimelink.go      its state, and waiting for it
//	hooks.go            sandboxes that start and stop
//	synchronize.go      sandboxes that exist when the driver, or the runtime, was restarted
//	waitallowance.go    how long the hooks of all pods together may wait
//	createcontainer.go  containers, which the gate may hold
//	sandbox.go          converts NRI's sandboxes, and reads the annotation of pods
//	multusentry.go      the default network's entries of network-status beside Multus
//	unclaimed.go        attaches, or refuses, pods that name networks and have no claim
//	unclaimedpolicy.go  which of the two
//
// What they start, and what runs by itself:
//
//	attachjobs.go  attaches sandboxes
//	attachjob.go   one sandbox that is being attached
//	detach.go      detaches sandboxes and claims
//	livesandboxes.go  the sandboxes of the node
//	waitallowance.go  what the hooks of all pods together may wait
//	podedits.go    when the networks of a running pod may have to follow its annotation
//	podeditor.go   what a running pod has, and whether it was edited
//	podeditchange.go  makes them follow it
//	podeditbegin.go   what edits have made of a new sandbox
//	podeditreport.go  reports what edits change, and what they cannot
//	podwatch.go    the node's pods
//	owner.go       whether the node is nadra's
//	adopt.go       takes over what Multus has attached
//	giveback.go    gives it back, and hands over to Multus what nadra has attached without a claim
//	sweep.go       runs DELs that no call of kubelet or runtime triggers
//	cnicache.go    cleans up the CNI cache, and plugins' garbage
//	check.go       CHECK of what is attached
//	checklook.go   whether what plugins have made is still there
//	checkreport.go  reports the results of CHECKs
//	report.go      reports everything else, by events and on claims
//	ready.go       liveness and readiness
//	measure.go     measures calls
//	metricsstate.go  the driver's state in metrics
//
// Networks are published by internal/publish, functions of cards by internal/hwdevices. Sandboxes are
// attached, and pending DELs retried, by internal/attach, all in operations on pods, which
// internal/operations runs and without which no plugin is called.
//
// # For operators
//
// The driver needs a container runtime with NRI enabled. Until the runtime has connected,
// Prepare waits, and refuses after 30 s. NRI gives a hook 2 s by default (in containerd
// plugin_request_timeout). Attaching that takes longer continues behind the gate, which holds
// the pod's containers.
//
// While the driver is down, pods without claims are not affected. Pods with claims wait in
// ContainerCreating, and those that end stay Terminating until it is back. Containers of a
// sandbox that the runtime made meanwhile wait at the gate for a minute, then fail and are
// retried. All that the driver needs is in its state directory.
package driver
