// Package cluster runs a real Kubernetes cluster on one Linux machine, for
// tests and for trying things out: etcd, the control plane, and any number of
// nodes with kubelet, containerd (with NRI), runc and CNI plugins. All of it
// is built from Go modules; nothing is downloaded as a binary, nothing is
// replaced by a fake.
//
// # Machines
//
// The control plane and each node are "machines": processes in mount, PID,
// network, IPC and UTS namespaces of their own, held by a first process whose
// end is the end of everything in it. A machine sees the files of the real
// one, except for /proc, /sys, /run and the folders that kubelet, containerd
// and CNI keep things in. So the usual paths and ports are used as they are,
// and the real machine is not touched, apart from one control group in each
// hierarchy and some empty folders that are mount points.
//
//	      control-plane: etcd, API server, controllers, scheduler
//	        nadra0 10.99.0.254/24, 10.97.0.1 (service kubernetes)
//	          ┌──────────────┴──────────────┐
//	    eth0 10.99.0.1                 eth0 10.99.0.2
//	node-1: kubelet, containerd    node-2: kubelet, containerd
//	     cni0 10.98.1.0/24              cni0 10.98.2.0/24
//	     pods …                         pods …
//
// There is no way from there to any other network, nor from outside to there:
// this package enters the namespaces to open connections (RESTConfig, Dial),
// to run commands (Exec, Kubectl) and to look at interfaces (DoInNetNS).
//
// # Processes
//
// Start returns when the cluster is ready; its processes belong to nobody and
// run until Stop, which any process can call. A run folder says it all: PID
// files with start times, so that no other process is ever taken for one of
// ours, logs, keys, disks. A folder with cluster.json belongs to a complete
// cluster, one without to an attempt, which the next Start or Stop removes.
//
// Clusters do not disturb each other: all that one has outside of its machines
// follows from the path of its run folder. A cluster can be started from any
// network namespace, and needs no network once the cache is filled.
//
// Single components can be killed and started again, and a node can be
// rebooted: all its namespaces go and its disk stays. The real Multus, daemon
// and shim, can be made the CNI of a node, and be taken off it again.
package cluster
