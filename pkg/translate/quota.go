package translate

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/yamledit"
)

// checkQuota reports quotas of a resource from which networks draw.
func (e *environment) checkQuota(o object, r *reporter) {
	switch {
	case o.group == "" && o.ref.Kind == "ResourceQuota":
		hard := o.get("spec", "hard")
		yamledit.Entries(hard.node, func(key, _ *yaml.Node) {
			name := strings.TrimPrefix(strings.TrimPrefix(key.Value, "requests."), "limits.")
			if e.pools[name] {
				r.addAt(QuotaOldName, spot{key, hard.path.Child(key.Value)}, "networks draw from %s", name)
			}
		})
	case o.group == "kueue.x-k8s.io" && o.ref.Kind == "ClusterQueue":
		for _, group := range o.get("spec", "resourceGroups").items() {
			for _, covered := range group.get("coveredResources").items() {
				if e.pools[covered.str()] {
					r.addAt(KueueOldName, covered, "networks draw from %s", covered.str())
				}
			}
		}
	}
}
