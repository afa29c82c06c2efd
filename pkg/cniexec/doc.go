// Package cniexec runs the CNI plugins of one attachment in one sandbox. It is the only
// package of the driver that starts processes:
//
//	runner.go       the Runner: ADD, DEL, finding plugins
//	ask.go          STATUS and CHECK
//	gc.go           GC, and attachments that only the cache has
//	cache.go        reading libcni's cache
//	othercaches.go  what other runtimes have attached
//	runtimecache.go the container runtime's result of eth0: reads it, and removes routes from it
//	ipam.go         DEL of IPAM plugins alone
//	runtimeconf.go  what plugins get besides the conflist
//	deviceinfo.go   the device information specification
//	exec.go         one process of a plugin, and its errors
//	held.go         work that is done while a plugin's process starts
//	reap.go         collecting the processes that plugins leave behind
//	gone.go         plugins whose DEL fails without a network namespace
//	transient.go    which errors may pass
//
// Plugins expect the host's files, and the driver is a container. Plugins are therefore
// executed with the host's root directory as their root, in the driver's network
// namespace, which is the host's, and in its PID namespace, which is not: if the driver
// dies, the kernel kills every plugin that it had started, so that none runs on beside
// the next driver.
//
// libcni keeps the configuration and result of every ADD in a cache directory, from which
// it passes prevResult to DEL. The directory given to New must be nadra's own: in the
// default one, shared with the container runtime and Multus, a GC would delete their
// attachments.
//
// Errors have a code (pkg/api/reason) where this package knows the cause better than its
// caller: an invalid conflist, a missing plugin, an expired time limit, a full disk.
package cniexec
