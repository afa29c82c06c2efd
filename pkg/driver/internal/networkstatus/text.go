package networkstatus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// Text renders the annotation: the entries of the default network first, and then
// the attachments in order, in Multus' form (behaviours A3-29 to A3-42). It keeps what others have added to the
// annotation before: addresses of an attachment that is otherwise the same, and entries of interfaces that the pod has
// by links.
func Text(defaultNetwork []*nadv1.NetworkStatus, records []checkpoint.Record, before string, links func() ([]string, error)) (string, error) {
	statuses, err := entries(records)
	if err != nil {
		return "", err
	}
	var shown []nadv1.NetworkStatus
	var raw []json.RawMessage
	if json.Unmarshal([]byte(before), &shown) != nil || json.Unmarshal([]byte(before), &raw) != nil {
		shown = nil // what is no list is replaced
	}
	for _, own := range statuses {
		if i := slices.IndexFunc(shown, func(s nadv1.NetworkStatus) bool { return covers(s, own) }); i >= 0 {
			own.IPs = append(own.IPs, slices.DeleteFunc(shown[i].IPs, func(ip string) bool { return slices.Contains(own.IPs, ip) })...)
		}
	}
	statuses = slices.Concat(defaultEntries(defaultNetwork, movesRoute(records)), statuses)
	others, err := othersOf(shown, statuses, links)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, s := range statuses {
		b, err := json.MarshalIndent(s, "", "    ")
		if err != nil {
			return "", fmt.Errorf("encoding the status of %s: %w", s.Interface, err)
		}
		texts = append(texts, string(b))
	}
	for _, i := range others {
		texts = append(texts, string(raw[i]))
	}
	return "[" + strings.Join(texts, ",") + "]", nil
}

// othersOf returns the positions of the entries that others have written: of interfaces that the pod has by links, and
// that are neither the default one nor among nadra's own.
func othersOf(shown []nadv1.NetworkStatus, own []*nadv1.NetworkStatus, links func() ([]string, error)) (others []int, err error) {
	var has []string
	for i, s := range shown {
		isOwn := func(o *nadv1.NetworkStatus) bool { return o.Interface == s.Interface }
		if s.Default || s.Interface == "eth0" || s.Interface == "" || slices.ContainsFunc(own, isOwn) {
			continue
		}
		if has == nil {
			if has, err = links(); err != nil {
				return nil, fmt.Errorf("looking for the interfaces that others list: %w", err)
			}
		}
		if slices.Contains(has, s.Interface) {
			others = append(others, i)
		}
	}
	return others, nil
}

// covers reports whether an entry is nadra's own, and may have addresses that others have added.
func covers(shown nadv1.NetworkStatus, own *nadv1.NetworkStatus) bool {
	if shown.Name != own.Name || shown.Interface != own.Interface {
		return false // without an encoding, because a tenant may list thousands
	}
	shown.IPs = slices.DeleteFunc(slices.Clone(shown.IPs), func(ip string) bool { return !slices.Contains(own.IPs, ip) })
	return attachment.SameJSON(shown, own)
}

// Shows reports whether an annotation has the entries of these records. It ignores the
// entries of the default network, whose addresses may change while the pod runs, and what others have added.
func Shows(text string, records []checkpoint.Record) bool {
	var shown []nadv1.NetworkStatus
	if json.Unmarshal([]byte(text), &shown) != nil {
		return false
	}
	wanted, err := entries(records)
	return err == nil && !slices.ContainsFunc(wanted, func(w *nadv1.NetworkStatus) bool {
		return !slices.ContainsFunc(shown, func(s nadv1.NetworkStatus) bool { return covers(s, w) })
	})
}

// lists reports whether an annotation has the entries of these records, in their order, and no
// other besides those of the default network and of interfaces that the pod has by links.
func lists(text string, records []checkpoint.Record, links func() ([]string, error)) bool {
	shown, err := Shown(text)
	wanted, err2 := entries(records)
	if err != nil || err2 != nil {
		return false
	}
	others, err := othersOf(shown, wanted, links)
	if err != nil {
		return false
	}
	for _, i := range slices.Backward(others) {
		shown = slices.Delete(shown, i, i+1)
	}
	return slices.EqualFunc(shown, wanted, covers)
}

// DefaultEntries returns the entries of the default network, none if the annotation marks none.
func DefaultEntries(text string) (out []*nadv1.NetworkStatus) {
	var all []nadv1.NetworkStatus
	if json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	name, found := defaultName(all)
	for i := range all {
		if found && all[i].Name == name {
			out = append(out, &all[i])
		}
	}
	return out
}

// defaultName returns the name of the default network, of whose entries one is marked.
func defaultName(all []nadv1.NetworkStatus) (name string, found bool) {
	i := slices.IndexFunc(all, func(s nadv1.NetworkStatus) bool { return s.Default })
	if i < 0 {
		return "", false
	}
	return all[i].Name, true
}

// Shown returns the entries of an annotation without those of the default network, which not
// every version of Multus marks. An empty annotation has none.
func Shown(text string) ([]nadv1.NetworkStatus, error) {
	var all []nadv1.NetworkStatus
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("reading annotation %s: %w", nadv1.NetworkStatusAnnot, err)
	}
	name, found := defaultName(all)
	return slices.DeleteFunc(all, func(s nadv1.NetworkStatus) bool {
		return found && s.Name == name || attachment.IsDefault(s)
	}), nil
}

// defaultEntries returns the entries of the default network with the gateways by which packets leave.
// They are none if nadra has moved the pod's default routes (behaviour A3-40).
func defaultEntries(network []*nadv1.NetworkStatus, moved bool) (out []*nadv1.NetworkStatus) {
	for _, s := range network {
		entry := *s
		entry.Gateway = nil
		if !moved {
			entry.Gateway = withAddress(s.Gateway)
		}
		out = append(out, &entry)
	}
	return out
}

// movesRoute reports whether nadra moves the default routes of a pod with these records.
func movesRoute(records []checkpoint.Record) bool {
	return slices.ContainsFunc(records, func(r checkpoint.Record) bool { return r.Attachment.DefaultRoute != nil })
}

// entries returns the entries of attachments. Their gateways are those by which the
// pod's default routes leave, also after nadra has moved the routes (behaviour A3-40).
func entries(records []checkpoint.Record) ([]*nadv1.NetworkStatus, error) {
	var out []*nadv1.NetworkStatus
	moved := movesRoute(records)
	for _, r := range records {
		var result types100.Result
		if err := json.Unmarshal(r.Result, &result); err != nil {
			return nil, fmt.Errorf("reading the result of %s: %w", r.Attachment.Interface, err)
		}
		statuses, err := nadutils.CreateNetworkStatuses(&result, r.Attachment.Network.String(), false, deviceInfo(r))
		if err != nil {
			return nil, fmt.Errorf("making the status of %s: %w", r.Attachment.Interface, err)
		}
		for _, s := range statuses {
			s.Gateway = gateways(r, *s, moved)
		}
		out = append(out, statuses...)
	}
	return out, nil
}

// gateways returns the gateways of one entry: those of the result's default routes, or
// those that nadra has replaced them by.
func gateways(r checkpoint.Record, entry nadv1.NetworkStatus, moved bool) []string {
	switch {
	case !moved:
		return withAddress(entry.Gateway)
	case r.Attachment.DefaultRoute != nil && entry.Interface == r.Attachment.Interface:
		return *r.Attachment.DefaultRoute
	}
	return nil
}

// withAddress returns the gateways that have an address: for a default route without a gateway the
// library prints Go's nil. Entries of one result share their gateways.
func withAddress(gateways []string) []string {
	return slices.DeleteFunc(slices.Clone(gateways), func(g string) bool { return g == "<nil>" })
}

// deviceInfo returns the plugins' device information, as far as the specification
// defines it. It returns nil if there is none.
func deviceInfo(r checkpoint.Record) *nadv1.DeviceInfo {
	var info *nadv1.DeviceInfo
	if json.Unmarshal(r.DeviceInfo, &info) != nil {
		return nil
	}
	return info
}
