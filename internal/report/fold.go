package report

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// identity is an object without its API version: owners are named, and
// manifests are kept, with whichever version was at hand.
type identity struct{ kind, namespace, name string }

func identityOf(o translate.ObjectRef) identity { return identity{o.Kind, o.Namespace, o.Name} }

// fold lists the workloads but for those that another one made, that ask for the
// same networks and that nothing else is said of; of those the pods are counted. It returns, too, the
// objects that are not listed.
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
		// Files may have several objects of one name: what is said of one that
		// is listed must not get lost with one that is not.
		delete(folded, verdicts[i].Object)
	}
	slices.SortStableFunc(listed, func(a, b Workload) int { return compareRefs(a.Object, b.Object) })
	return listed, folded
}

type folding struct {
	verdicts []translate.Verdict
	places   map[identity][]int
}

// root is the topmost owner that asks for what the i-th workload asks for. In
// a circle of owners everybody stands alone.
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

// owner finds the owner of a workload, if it is there with the same networks.
func (f *folding) owner(i int) (int, bool) {
	v := f.verdicts[i]
	if v.Owner == nil {
		return 0, false
	}
	id := identityOf(*v.Owner)
	if id.namespace == "" {
		// Owner references have none: owners are where their objects are.
		id.namespace = v.Object.Namespace
	}
	for _, at := range f.places[id] {
		if slices.Equal(f.verdicts[at].Networks, v.Networks) && saysNoMore(v.Codes, f.verdicts[at].Codes) {
			return at, true
		}
	}
	return 0, false
}

// saysNoMore reports whether all that is said of an object is said of its owner,
// too, but that it has one. Admission may have made the object what its owner
// is not.
func saysNoMore(codes, owners []translate.Code) bool {
	return !slices.ContainsFunc(codes, func(c translate.Code) bool {
		return c != translate.OwnedWorkload && !slices.Contains(owners, c)
	})
}
