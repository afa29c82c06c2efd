// Package vm is the lane for what this machine's kernel cannot do: it runs a
// virtual machine with SR-IOV cards as the node of a real cluster.
//
// The control plane is that of test/cluster, in its namespaces. The guest is a
// stock Debian kernel in QEMU, with the same containerd, runc, kubelet and CNI
// plugins on its disk as any other node has, and nadra comes by its manifests.
// The guest's uplink is a tap on the cluster's bridge, so that scheduler,
// kubelet, `kubectl exec` and webhooks work as they do elsewhere, and nothing
// is reachable from outside:
//
//	control-plane: etcd, API server, …   nadra0 10.99.0.254/24
//	      └── tap node-1 ── virtio-net ── QEMU ── eth0 10.99.0.1
//	                                       │  containerd, kubelet, nadra, pods
//	                                       ├─ igb pf0  VFs pf0v0, pf0v1, …
//	                                       └─ igb pf1  VFs pf1v0, pf1v1, …
//
// The two cards are joined by a hub inside of QEMU. Each is on a NUMA node and
// a PCIe root of its own. A soft RoCE device stands for the RDMA side of some
// virtual functions, by a small kernel module that is for this guest only
// (lanerdma).
//
// On the disk is iptables in its older form, for the plugins that write the node's
// rules: hostrules_test.go.
//
// QEMU emulates (TCG) and never uses KVM, which is not to be had on most CI
// machines, and where it opens it may hang.
//
// On the disk is a small agent. As /init it sets the machine up; then it runs
// what the host asks for, over HTTP, and tells what is in a network namespace.
//
// A case with virtual functions is in pool_test.go: pools defines resource
// pools, poolNAD a network that draws from one, createOf a pod on it, and
// leavesNothing looks at what is left; dpdk is a pod that asks for a pool's
// extended resource, which classOfPool serves. These are in poolfixture_test.go.
// vf_test.go does without pools, by the plugins that move functions; sriov_test.go
// is about sriov-cni, which the lane has where SRIOV_CNI names a built one (it
// was last run with v2.10.0-91-g1b7acc5b); CI has none, and counts its cases as not
// run. testCase counts.
//
// What the lane needs besides Go and gcc it installs with apt (QEMU from
// bookworm-backports) or unpacks into the cache (the kernel, iptables); where that fails
// it fails.
package vm
