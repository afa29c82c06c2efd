// Package multusstate reads and moves what Multus keeps on a node about the sandboxes that it
// has attached, so that nadra's driver can delete these attachments when their pods end, and writes
// the same about sandboxes that nadra has attached, so that Multus can. It also takes Multus'
// configuration away from the container runtime, and gives it back.
//
// # Files
//
//	<cniDir>/<sandbox>                                    written before the first ADD, removed after DEL
//	<cniDir>/results/<network>-<sandbox>-<interface>      libcni's cache: written after each ADD
//	<cniDir>/nadra/<sandbox>                              the first file, while nadra has taken it
//
// Multus deletes the attachments of a sandbox if it finds the sandbox's file, and nadra if it has
// taken that file. A file is moved by one rename, so each attachment has one owner at any time.
//
// The container runtime calls Multus for the default network, too, so Multus also has a file for
// a pod without further networks, and libcni's entry of eth0 is in Multus' cache and not in the
// runtime's. A sandbox that is taken gives its entry of eth0 to the runtime, and one that is handed over
// gives the runtime's to Multus.
package multusstate
