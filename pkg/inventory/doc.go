// Package inventory reads the network hardware of a host: physical and virtual functions,
// scalable functions and plain network cards, from sysfs and, for facts that sysfs lacks,
// from netlink. It starts no processes and changes nothing.
//
// A missing fact is not an error: a virtual function whose interface is in a pod has no
// interface on the host and is still a function, and an old kernel reports less.
//
// The package uses neither sriovnet nor rdmamap. Both read /sys of the machine that they run
// on, so they can read neither recorded trees nor a host's sysfs that is mounted elsewhere,
// and both read the same directories again for each question. One walk answers all of them.
package inventory
