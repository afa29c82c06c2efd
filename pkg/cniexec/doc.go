// Package cniexec runs the CNI plugins of one attachment in one sandbox. It is the only
// package of the driver that starts processes.
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
