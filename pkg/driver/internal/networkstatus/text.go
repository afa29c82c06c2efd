package networkstatus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadutils "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/utils"

	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// Text renders the annotation: the default network first, unless it is nil, and then
// the attachments in order, in Multus' form (behaviours A3-29 to A3-42).
func Text(defaultNetwork *nadv1.NetworkStatus, records []checkpoint.Record) (string, error) {
	statuses, err := entries(records)
	if err != nil {
		return "", err
	}
	if defaultNetwork != nil {
		statuses = slices.Insert(statuses, 0, defaultNetwork)
	}
	texts := make([]string, len(statuses))
	for i, s := range statuses {
		b, err := json.MarshalIndent(s, "", "    ")
		if err != nil {
			return "", fmt.Errorf("encoding the status of %s: %w", s.Interface, err)
		}
		texts[i] = string(b)
	}
	return "[" + strings.Join(texts, ",") + "]", nil
}

// Shows reports whether an annotation has the entries of these records. It ignores the
// entry of the default network, whose addresses may change while the pod runs.
func Shows(text string, records []checkpoint.Record) bool {
	var shown []nadv1.NetworkStatus
	if json.Unmarshal([]byte(text), &shown) != nil {
		return false
	}
	wanted, err := entries(records)
	return err == nil && !slices.ContainsFunc(wanted, func(w *nadv1.NetworkStatus) bool {
		return !slices.ContainsFunc(shown, func(s nadv1.NetworkStatus) bool { return sameJSON(s, w) })
	})
}

// Lists reports whether an annotation has the entries of these records, in their order, and no
// other besides that of the default network.
func Lists(text string, records []checkpoint.Record) bool {
	shown, err := Shown(text)
	wanted, err2 := entries(records)
	return err == nil && err2 == nil && slices.EqualFunc(shown, wanted, func(s nadv1.NetworkStatus, w *nadv1.NetworkStatus) bool { return sameJSON(s, w) })
}

// DefaultEntry returns the entry of the default network, nil if the annotation has none.
func DefaultEntry(text string) *nadv1.NetworkStatus {
	var all []nadv1.NetworkStatus
	if json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	i := slices.IndexFunc(all, func(s nadv1.NetworkStatus) bool { return s.Default })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// Shown returns the entries of an annotation without that of the default network, which not
// every version of Multus marks. An empty annotation has none.
func Shown(text string) ([]nadv1.NetworkStatus, error) {
	var all []nadv1.NetworkStatus
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("reading annotation %s: %w", nadv1.NetworkStatusAnnot, err)
	}
	return slices.DeleteFunc(all, func(s nadv1.NetworkStatus) bool {
		return s.Default || s.Interface == "eth0" || !strings.Contains(s.Name, "/")
	}), nil
}

// entries returns the entries of attachments. Their gateways are those by which the
// pod's default routes leave, also after nadra has moved the routes (behaviour A3-40).
func entries(records []checkpoint.Record) ([]*nadv1.NetworkStatus, error) {
	var out []*nadv1.NetworkStatus
	moved := slices.ContainsFunc(records, func(r checkpoint.Record) bool { return r.Attachment.DefaultRoute != nil })
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
		// For a default route without a gateway the library prints Go's nil.
		return slices.DeleteFunc(entry.Gateway, func(g string) bool { return g == "<nil>" })
	case r.Attachment.DefaultRoute != nil && entry.Interface == r.Attachment.Interface:
		return *r.Attachment.DefaultRoute
	}
	return nil
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

// sameJSON reports whether two values are encoded alike.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
