// Package driver connects the kubelet (DRA) and the container runtime (NRI) to
// network attachments on this node. Its files are named for who calls:
//
//	dra.go      the kubelet: Prepare and Unprepare of claims
//	nri.go      the runtime: sandboxes that start and stop
//	gatehook.go runc, through nadra-gate: containers wait for their networks
//	publish.go  nobody; it follows NADs and links and publishes ResourceSlices
//	owner.go    nobody; it follows the Node, which says whether to publish
//	health.go   nobody; it asks plugins by STATUS whether they are well
//	check.go    a pod's owner, and the driver's start: CHECK of what is attached
//	report.go   the API server is told what happened, behind a queue
//
// Prepare does everything that needs no network namespace: it finds the NAD,
// renders the conflist, checks plugins and master, and notes the result in
// pkg/checkpoint. The sandbox hook then reads that note, runs the plugins with
// pkg/cniexec and notes what they said. No request to the API server stands
// between the two.
//
// # For operators
//
// The driver needs a container runtime with NRI enabled. Until the runtime has
// connected, Prepare waits, and refuses after 30 s. NRI gives a hook 2 s by
// default; networks whose plugins need longer fail with a message that says
// so: raise plugin_request_timeout in the runtime's NRI configuration.
//
// While the driver is down, pods without claims are not concerned. Pods with
// claims wait in ContainerCreating, and those that end stay Terminating until
// it is back. Containers of a sandbox that the runtime made meanwhile wait at
// the gate for a minute, and then fail and are tried again. All that the driver
// needs to know is in its state directory.
package driver
