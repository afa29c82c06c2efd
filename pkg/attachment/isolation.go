package attachment

import (
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// Isolation restricts the networks that a pod may use. The zero value allows all, as Multus does by
// default.
type Isolation struct {
	// On restricts pods to networks of their own namespace and of Global
	// (Multus' namespaceIsolation, behaviour A4-52).
	On bool
	// Global has the namespaces whose networks all pods may use (Multus' globalNamespaces). As
	// there, a list replaces the default, which is "default".
	Global []string
}

// Allow returns an error if a pod of a namespace may not use a network.
func (i Isolation) Allow(podNamespace string, network NetworkRef) error {
	if !i.On || network.Namespace == podNamespace || slices.Contains(i.Global, network.Namespace) {
		return nil
	}
	shared := ""
	if len(i.Global) > 0 {
		shared = ", or in a shared namespace: " + strings.Join(i.Global, ", ")
	}
	return reason.Errorf(reason.NamespaceIsolation, "namespace isolation does not allow network %s for pods of namespace %s: "+
		"use a NetworkAttachmentDefinition in %s%s", network, podNamespace, podNamespace, shared)
}
