//go:build e2e

package ipam

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"strings"

	"github.com/nadra-dev/nadra/test/lab"
)

// allocation is an address that whereabouts has given to an interface of a pod,
// "namespace/name".
type allocation struct {
	address           netip.Addr
	pod, iface, where string
}

func (a allocation) String() string {
	return fmt.Sprintf("%s of %s (%s) in %s", a.address, a.pod, a.iface, a.where)
}

// crds is the path of whereabouts' own objects, which are all in one namespace.
const crds = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/"

// inPools returns the allocations of all IPPools.
func inPools(ctx context.Context, l *lab.Lab) ([]allocation, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct {
				Range       string
				Allocations map[string]struct{ Podref, Ifname string }
			}
		}
	}
	if err := read(ctx, l, "ippools", &list); err != nil {
		return nil, err
	}
	var out []allocation
	for _, pool := range list.Items {
		prefix, err := netip.ParsePrefix(pool.Spec.Range)
		if err != nil {
			return nil, fmt.Errorf("reading IPPool %s: %w", pool.Metadata.Name, err)
		}
		for offset, a := range pool.Spec.Allocations {
			address, err := plus(prefix.Masked().Addr(), offset)
			if err != nil {
				return nil, fmt.Errorf("reading IPPool %s: %w", pool.Metadata.Name, err)
			}
			out = append(out, allocation{address, a.Podref, a.Ifname, "IPPool " + pool.Metadata.Name})
		}
	}
	return out, nil
}

// reserved returns the reservations that hold over all ranges. Their names have
// the address, and the network's name in front of it if it has one.
func reserved(ctx context.Context, l *lab.Lab) ([]allocation, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ Podref, Ifname string }
		}
	}
	if err := read(ctx, l, "overlappingrangeipreservations", &list); err != nil {
		return nil, err
	}
	var out []allocation
	for _, r := range list.Items {
		out = append(out, allocation{pod: r.Spec.Podref, iface: r.Spec.Ifname, where: "OverlappingRangeIPReservation " + r.Metadata.Name})
	}
	return out, nil
}

func read(ctx context.Context, l *lab.Lab, resource string, into any) error {
	raw, err := l.Kube.Discovery().RESTClient().Get().AbsPath(crds + resource).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("listing %s: %w", resource, err)
	}
	return json.Unmarshal(raw, into)
}

// plus returns the address at an offset from the first of a range.
func plus(first netip.Addr, offset string) (netip.Addr, error) {
	n, ok := new(big.Int).SetString(offset, 10)
	if !ok {
		return netip.Addr{}, fmt.Errorf("offset %q is not a number", offset)
	}
	bytes := first.AsSlice()
	sum := new(big.Int).Add(new(big.Int).SetBytes(bytes), n)
	out, ok := netip.AddrFromSlice(sum.FillBytes(bytes))
	if !ok {
		return netip.Addr{}, fmt.Errorf("offset %s of %s is no address", offset, first)
	}
	return out, nil
}

// allocated returns all that whereabouts keeps for pods of the namespace.
func (f *fixture) allocated(ctx context.Context) ([]allocation, error) {
	pools, err := inPools(ctx, f.Lab)
	if err != nil {
		return nil, err
	}
	reservations, err := reserved(ctx, f.Lab)
	if err != nil {
		return nil, err
	}
	var out []allocation
	for _, a := range append(pools, reservations...) {
		if strings.HasPrefix(a.pod, f.NS+"/") {
			out = append(out, a)
		}
	}
	return out, nil
}

// given returns the address in the pools for an interface of a pod of the namespace, or the
// zero address.
func (f *fixture) given(ctx context.Context, pod, iface string) (netip.Addr, error) {
	pools, err := inPools(ctx, f.Lab)
	for _, a := range pools {
		if a.pod == f.NS+"/"+pod && a.iface == iface {
			return a.address, nil
		}
	}
	return netip.Addr{}, err
}
