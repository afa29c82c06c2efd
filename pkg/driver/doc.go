// Package driver connects the kubelet (DRA) and the container runtime (NRI) to network
// attachments on this node. Prepare does everything that needs no network namespace: it finds
// the NAD, renders the conflist, checks plugins and master, and writes a record with
// pkg/checkpoint. The sandbox hook reads the record, runs the plugins with pkg/cniexec and
// records their results. No request to the API server is between the two.
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
