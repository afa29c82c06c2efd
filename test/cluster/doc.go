// Package cluster runs a real Kubernetes cluster on one Linux machine, for tests and for
// trying nadra: etcd, the control plane, and any number of nodes with kubelet, containerd
// (with NRI), runc and CNI plugins. All of it is built from Go modules. Nothing is downloaded
// as a binary, and no component is replaced by a fake.
//
// # Machines
//
// The control plane and each node are "machines": processes in mount, PID, network, IPC and
// UTS namespaces of their own. A first process holds the namespaces, and its end ends
// everything in them. A machine sees the files of the real machine, except for /proc, /sys,
// /run and the folders of kubelet, containerd and CNI. So components use their usual paths
// and ports, and the real machine does not change, apart from one control group in each
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
// The machines have no connection to any other network. This package enters their namespaces
// to open connections (RESTConfig, Dial), to run commands (Exec, Kubectl) and to inspect
// interfaces (DoInNetNS).
//
// # Processes
//
// Start returns when the cluster is ready. Its processes outlive the caller and run until
// Stop, which any process can call. The run folder has everything that Stop needs: PID files
// with start times, which identify a process also if its PID is used again, logs, keys and
// disks. A folder with cluster.json belongs to a complete cluster. A folder without it belongs
// to an attempt, which the next Start or Stop removes.
//
// Clusters do not disturb each other, because everything that one has outside of its machines
// has a name that follows from its run folder. A cluster can be started from any network
// namespace, and needs no network once the cache is filled. The default run folder follows from the
// path of the checkout. TestTwoClusters starts two clusters, one of them without any network; their
// pods may have the same addresses.
//
// Single components can be killed and restarted, and a node can be rebooted, which ends all
// its namespaces and keeps its disk. The real Multus, daemon and shim, can be installed as a
// node's CNI, and removed again.
//
// # Variants
//
// Variables choose other components and other nodes, for every lane:
//
//	NADRA_RUNTIME        crio: CRI-O is the container runtime of all nodes, instead of containerd
//	NADRA_CONTAINERD     2.3 and 2.2 are their newest releases, 2.2-leak is an older one that leaves
//	                     processes of sandboxes behind, newest-nri has the newest NRI
//	NADRA_KUBERNETES     1.36, 1.35 or 1.34: all components of Kubernetes
//	NADRA_KUBELET        the same, the kubelets alone
//	NADRA_EMULATE        the version that the control plane emulates (--emulated-version), without
//	                     another build
//	NADRA_FEATURE_GATES  feature gates of all components: DRADeviceTaints=false,…
//	NADRA_LAYOUT         elsewhere: a read-only root, other directories, the reference plugins from an image
//	NADRA_FAMILIES       ipv6 or dual: addresses of nodes, services and pods
//	NADRA_MULTUS         4.2: the newest release before the Multus of the other lanes
//	MULTUS               a folder with built programs of another Multus
//	NADRA_CACHE          the folder of built components, saved logs and clusters: ~/.cache/nadra
//
// Each component is built from its folder in components; the file v1.35.mod beside a go.mod requires
// an older version, which is built at its first use. A test that depends on a feature of Kubernetes
// asks the API server for it (lab.FeatureOn), and states what happens without it.
//
// CRI-O is built from its Go module, with a program that loads images into its store and the helper
// pinns; conmon comes from Debian. Suites ask the node for what differs (Runtime): where it keeps
// containers, whether a sandbox has a process, which CNI configuration it uses. The nodes differ
// from a usual CRI-O, because the build machine lacks CAP_SYS_RESOURCE: the OCI runtime is a script
// that runs runc with a valid OOM score and without it, and /proc/cgroups lists only mounted
// controllers. The lanes e2e-dropin, e2e-upgrade, conformance and 1,000 pods of the fault suite were
// run with CRI-O on 2026-11-25; e2e-ipam was not.
//
// With NADRA_LAYOUT=elsewhere the directories of kubelet, NRI, CDI, CNI and nadra are below /srv and
// /run, and nadra is installed with the chart and with kustomize. The root is an overlay without an
// upper layer, because a runtime makes a read-only mount of a writable file system writable again.
// TestLayout of test/e2e checks that a plugin cannot write to the root, and that nothing is at the
// usual places. Nodes with Multus and guests have the usual directories only, and guests IPv4.
//
// # Files
package cluster
