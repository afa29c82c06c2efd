// Package inventory reads what network hardware a host has: physical and virtual
// functions, scalable functions and plain network cards, from sysfs and, for what
// sysfs does not tell, from netlink. It starts no processes and changes nothing.
//
// What is absent is not an error: a virtual function whose interface is in a pod
// has none on the host and still is a function, and an old kernel knows less.
//
// Neither sriovnet nor rdmamap is used. Both read /sys of the machine that they
// run on, with no other root, and so neither recorded trees nor a host's sysfs
// that is mounted elsewhere; and both read the same directories again for each
// question, where one walk has all the answers.
package inventory
