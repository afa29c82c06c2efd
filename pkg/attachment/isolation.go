package attachment

import (
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// Isolation says whose networks a pod may use. The zero value allows all, as
// Multus does by default.
type Isolation struct {
	// On restricts pods to networks of their own namespace and of Global
	// (Multus' namespaceIsolation, behaviour A4-52).
	On bool
	// Global are namespaces whose networks everybody may use (Multus'
	// globalNamespaces). As there, a list replaces the default, which is
	// "default".
	Global []string
}

// Allow returns an error when a pod of this namespace may not use the network.
func (i Isolation) Allow(podNamespace string, network NetworkRef) error {
	if !i.On || network.Namespace == podNamespace || slices.Contains(i.Global, network.Namespace) {
		return nil
	}
	shared := "no namespace is shared"
	if len(i.Global) > 0 {
		shared = "shared are those of " + strings.Join(i.Global, ", ")
	}
	return reason.Errorf(reason.NamespaceIsolation, "network %s is of another namespace than the pod, which is in %s, and namespace isolation is on (%s): "+
		"use a NetworkAttachmentDefinition in %s", network, podNamespace, shared, podNamespace)
}
