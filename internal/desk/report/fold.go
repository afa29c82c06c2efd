package report

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// identity is an object without its API version, which may differ between owner references
// and manifests.
type identity struct{ kind, namespace, name string }

func identityOf(o translate.ObjectRef) identity { return identity{o.Kind, o.Namespace, o.Name} }

// fold lists the workloads, except those that another workload owns, that ask for the same
// networks and that have no findings of their own. It counts the pods among these, and also
// returns the objects that are not listed.
func fold(verdicts []translate.Verdict) (listed []Workload, folded map[translate.ObjectRef]bool) {
	f := folding{verdicts: verdicts, places: map[identity][]int{}}
	for i, v := range verdicts {
		id := identityOf(v.Object)
		f.places[id] = append(f.places[id], i)
	}
	pods := map[int]int{}
	folded = map[translate.ObjectRef]bool{}
	var roots []int
	for i, v := range verdicts {
		root := f.root(i)
		switch {
		case root == i:
			roots = append(roots, i)
		case v.Object.Kind == "Pod":
			pods[root]++
			fallthrough
		default:
			folded[v.Object] = true
		}
	}
	listed = make([]Workload, 0, len(roots))
	for _, i := range roots {
		listed = append(listed, Workload{Verdict: verdicts[i], Pods: pods[i]})
		// Files may have several objects of one name: findings of a listed object
		// must not be left out with those of a folded one.
		delete(folded, verdicts[i].Object)
	}
	slices.SortStableFunc(listed, func(a, b Workload) int { return compareRefs(a.Object, b.Object) })
	return listed, folded
}

// folding finds owners of workloads.
type folding struct {
	verdicts []translate.Verdict
	places   map[identity][]int
}

// root returns the topmost owner that asks for the same networks as the i-th workload. In
// a circle of owners, each workload is its own root.
func (f *folding) root(i int) int {
	seen := map[int]bool{i: true}
	at := i
	for {
		owner, found := f.owner(at)
		if !found {
			return at
		}
		if seen[owner] {
			return i
		}
		seen[owner] = true
		at = owner
	}
}

// owner returns the owner of a workload, if the input has it with the same networks.
func (f *folding) owner(i int) (int, bool) {
	v := f.verdicts[i]
	if v.Owner == nil {
		return 0, false
	}
	id := identityOf(*v.Owner)
	if id.namespace == "" {
		// Owner references have no namespace: it is the object's.
		id.namespace = v.Object.Namespace
	}
	for _, at := range f.places[id] {
		if slices.Equal(f.verdicts[at].Networks, v.Networks) && covered(v.Codes, f.verdicts[at].Codes) {
			return at, true
		}
	}
	return 0, false
}

// covered reports whether the owner has all findings of an object, besides the one that the
// object has an owner. Admission may have changed the object.
func covered(codes, owners []translate.Code) bool {
	return !slices.ContainsFunc(codes, func(c translate.Code) bool {
		return c != translate.OwnedWorkload && !slices.Contains(owners, c)
	})
}
