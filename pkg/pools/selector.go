package pools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const remedySelector = "remove it, or write the selection with the selectors of docs/operations.md"

// parseSelectors reads a selector, or a list of them.
func parseSelectors(source Source, deviceType DeviceType, raw json.RawMessage) ([]Selector, []error) {
	if raw == nil || string(raw) == "null" {
		return nil, []error{source.errorf("it is missing: say which devices belong to the pool")}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		s, err := parseSelector(source, deviceType, raw)
		if err != nil {
			return nil, []error{err}
		}
		return []Selector{s}, nil
	}
	if len(list) == 0 {
		return nil, []error{source.errorf("the list is empty: say which devices belong to the pool")}
	}
	var out []Selector
	var errs []error
	for i, raw := range list {
		s, err := parseSelector(Source{source.Object, fmt.Sprintf("%s[%d]", source.Field, i)}, deviceType, raw)
		if err != nil {
			errs = append(errs, err)
		}
		out = append(out, s)
	}
	return out, errs
}

// parseSelector reads the selectors that the device type has in the SR-IOV
// device plugin; others of that plugin are refused with the rest.
func parseSelector(source Source, deviceType DeviceType, raw []byte) (Selector, error) {
	o, err := newObject(source, raw)
	if err != nil {
		return Selector{}, err
	}
	var s Selector
	o.get("vendors", &s.Vendors)
	o.get("devices", &s.Devices)
	o.get("drivers", &s.Drivers)
	if deviceType != AuxNetDevice {
		o.get("pciAddresses", &s.PCIAddresses)
	}
	if deviceType != Accelerator {
		o.network(&s)
	}
	switch deviceType {
	case NetDevice:
		o.get("acpiIndexes", &s.ACPIIndexes)
		o.get("ddpProfiles", &s.DDPProfiles)
		o.get("pKeys", &s.PKeys)
		o.get("vdpaType", &s.VDPAType)
		o.checkVDPA(s)
	case AuxNetDevice:
		o.get("auxTypes", &s.AuxTypes)
		if !slices.Equal(slices.Compact(slices.Sorted(slices.Values(s.AuxTypes))), []string{"sf"}) {
			o.fail("auxTypes", "%q: scalable functions are the only auxiliary devices that can be given to pods: make it [\"sf\"]", s.AuxTypes)
		}
	}
	return s, o.end(remedySelector)
}

func (o *object) network(s *Selector) {
	o.get("pfNames", &s.PFNames)
	o.get("rootDevices", &s.RootDevices)
	o.get("linkTypes", &s.LinkTypes)
	o.get("isRdma", &s.IsRDMA)
	o.get("needVhostNet", &s.NeedVhostNet)
	o.checkRanges("pfNames", s.PFNames)
	o.checkRanges("rootDevices", s.RootDevices)
}

func (o *object) checkVDPA(s Selector) {
	switch {
	case s.VDPAType != "" && s.VDPAType != "virtio" && s.VDPAType != "vhost":
		o.fail("vdpaType", "%q: it must be virtio or vhost", s.VDPAType)
	case s.VDPAType != "" && s.IsRDMA:
		o.fail("vdpaType", "%q: a function with a vDPA device has no RDMA for pods: remove this or isRdma", s.VDPAType)
	}
}

// checkRanges refuses what the device plugin takes and then selects nothing by.
func (o *object) checkRanges(field string, items []string) {
	seen := map[string]bool{}
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", field, i)
		name, _, _ := strings.Cut(item, "#")
		if name == "" {
			o.fail(at, "%q names no PF: write name#first-last", item)
		}
		if _, err := parseRanges(item); err != nil {
			o.fail(at, "%q: %w", item, err)
		}
		if key := strings.ToLower(name); seen[key] {
			o.fail(at, "%q: of several items for one PF only the first counts: put all ranges in one, %s#0-3,7", item, name)
		} else {
			seen[key] = true
		}
	}
}

// span is a range of functions, with both ends.
type span struct{ first, last int }

// parseRanges reads what follows the # of an item; nil is all functions.
func parseRanges(item string) ([]span, error) {
	_, list, ok := strings.Cut(item, "#")
	if !ok {
		return nil, nil
	}
	out := []span{}
	for entry := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(entry, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.Atoi(first)
		b, errB := strconv.Atoi(last)
		if errA != nil || errB != nil || a < 0 || b < a {
			return nil, fmt.Errorf("%q is neither a function's number nor a range: write first-last", entry)
		}
		out = append(out, span{a, b})
	}
	return out, nil
}
