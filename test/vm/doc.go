// Package vm is the lane for everything that this machine's kernel does not support: it runs
// a virtual machine with SR-IOV cards as the node of a real cluster.
//
// The control plane is that of test/cluster, in its namespaces. The guest is a stock Debian
// kernel in QEMU, with the same containerd, runc, kubelet and CNI plugins on its disk as any
// other node, and nadra is installed by its manifests. The guest's uplink is a tap on the
// cluster's bridge, so that scheduler, kubelet, `kubectl exec` and webhooks work as in other
// lanes, and nothing is reachable from outside:
//
//	control-plane: etcd, API server, …   nadra0 10.99.0.254/24
//	      └── tap node-1 ── virtio-net ── QEMU ── eth0 10.99.0.1
//	                                       │  containerd, kubelet, nadra, pods
//	                                       ├─ igb pf0  VFs pf0v0, pf0v1, …
//	                                       └─ igb pf1  VFs pf1v0, pf1v1, …
//
// A hub inside of QEMU joins the two cards. Each is on a NUMA node and a PCIe root of its
// own, behind an IOMMU, and has four virtual functions. A soft RoCE device acts as the RDMA side of
// some of them, by a small kernel module for this guest only (lanerdma), in exclusive mode, so that
// the real rdma-cni moves it.
//
// The disk has iptables in its older form, outside of the kubelet's PATH, for the plugins that write
// the node's rules (hostrules_test.go). Multus is the real one, thin.
//
// QEMU emulates (TCG) and never uses KVM, which most CI machines lack, and which may hang
// where it opens.
//
// The disk also has a small agent (vm/agent). As /init it sets the machine up. Then it runs
// the host's commands, over HTTP, and describes network namespaces.
//
// After each scenario every interface must have its name and hardware address again, every RDMA
// device must be back, and there must be no more files than before. Besides cards, the guest has
// what the build machine refuses: user namespaces, cgroup v2, and a clock of its own, which a test
// sets an hour ahead and back (conditions_test.go).
//
// A case with virtual functions is in pool_test.go: pools defines resource pools, poolNAD a
// network that draws from one, createOf a pod on it, and leavesNothing checks what is left.
// dpdk is a pod that requests a pool's extended resource, which classOfPool serves. These
// functions are in poolfixture_test.go. vf_test.go has networks without pools, by the plugins
// that move functions. sriov_test.go tests sriov-cni, and adopted_test.go functions that a device
// plugin has given to pods of Multus. align_test.go has claims with devices of several drivers, of which
// comeandgo_test.go lets many come and go on a node that is only an object; devicefrom_test.go runs a chain
// on another driver's function. The other drivers are test/otherdriver. testCase counts cases for the
// last lines:
//
//	vm-numa: aligned=N split=N unaligned=N split=N
//	vm-lane: cases=N passed=N not-run=N failures=N
//
// node_test.go compares testdata/sysfs/igb-vm.txt with the guest's sysfs; go test -tags e2e ./test/vm
// -run TestNode -update writes it.
//
//	SRIOV_CNI            the built sriov-cni, which is no Go module. Without it, as in CI, host-device
//	                     stands in, and the cases of sriov-cni count as not run. Last run with
//	                     v2.10.0-91-g1b7acc5b
//	SRIOV_DEVICE_PLUGIN  the built SR-IOV device plugin, in place of the lane's own (deviceplugin), which
//	                     offers the same functions. Last run with v3.11.0-28-g40b6f507e, on 2026-11-26
//	NADRA_VM_HOLD=1      keeps the machine after the tests
//
// Besides Go and gcc, the lane installs what it needs with apt (QEMU from
// bookworm-backports), or unpacks it into the cache (the kernel, iptables). It fails if it
// cannot.
package vm
