// Package cniexec runs the CNI plugins of one attachment in one sandbox. It is
// the only package of the driver that starts processes.
//
// Plugins expect the host's files, and the driver is a container. They are
// therefore executed with the host's root directory as their root (design D8),
// in the driver's network namespace, which is the host's, and in its PID
// namespace, which is not: when the driver dies, the kernel ends every plugin
// that it had started, so that none goes on behind the back of the next driver.
//
// libcni keeps the configuration and result of every ADD in a cache directory,
// from which it hands prevResult to DEL. The directory given to New must be
// nadra's own: in the default one, shared with the container runtime and
// Multus, a GC would take down attachments of theirs.
package cniexec
