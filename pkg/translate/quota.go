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
		yamledit.Entries(get(o.node, "spec", "hard"), func(key, _ *yaml.Node) {
			name := strings.TrimPrefix(strings.TrimPrefix(key.Value, "requests."), "limits.")
			if e.pools[name] {
				r.add(QuotaOldName, o.path.Child("spec", "hard", key.Value), r.doc.at(key), "networks draw from %s", name)
			}
		})
	case o.group == "kueue.x-k8s.io" && o.ref.Kind == "ClusterQueue":
		for i, group := range items(get(o.node, "spec", "resourceGroups")) {
			for j, covered := range items(get(group, "coveredResources")) {
				if e.pools[str(covered)] {
					path := o.path.Child("spec", "resourceGroups").Index(i).Child("coveredResources").Index(j)
					r.add(KueueOldName, path, r.doc.at(covered), "networks draw from %s", str(covered))
				}
			}
		}
	}
}
