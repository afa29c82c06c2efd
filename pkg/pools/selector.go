package pools

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// remedySelector is what to do about a selector that nadra does not know.
const remedySelector = "remove it, or use the selectors in docs/operate/pools.md"

// parseSelectors parses a selector, or a list of them.
func parseSelectors(source Source, deviceType DeviceType, raw json.RawMessage) ([]Selector, []error) {
	if raw == nil || string(raw) == "null" {
		return nil, []error{source.errorf("missing: select the pool's devices")}
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
		return nil, []error{source.errorf("empty list: select the pool's devices")}
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

// parseSelector parses the selectors that the SR-IOV device plugin has for the device type,
// and rejects all others.
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
			o.fail("auxTypes", "%q: pods can only use auxiliary devices that are scalable functions: set it to [\"sf\"]", s.AuxTypes)
		}
	}
	return s, o.end(remedySelector)
}

// network parses the selectors of network devices.
func (o *object) network(s *Selector) {
	o.get("pfNames", &s.PFNames)
	o.get("rootDevices", &s.RootDevices)
	o.get("linkTypes", &s.LinkTypes)
	o.get("isRdma", &s.IsRDMA)
	o.get("needVhostNet", &s.NeedVhostNet)
	o.checkRanges("pfNames", s.PFNames)
	o.checkRanges("rootDevices", s.RootDevices)
}

// checkVDPA rejects an unknown vdpaType, and RDMA together with vDPA.
func (o *object) checkVDPA(s Selector) {
	switch {
	case s.VDPAType != "" && s.VDPAType != "virtio" && s.VDPAType != "vhost":
		o.fail("vdpaType", "%q: it must be virtio or vhost", s.VDPAType)
	case s.VDPAType != "" && s.IsRDMA:
		o.fail("vdpaType", "%q: pods cannot use RDMA of a function with a vDPA device: remove vdpaType or isRdma", s.VDPAType)
	}
}

// checkRanges rejects items that the device plugin accepts although they select nothing.
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
			o.fail(at, "%q: only the first item for a PF counts: put all ranges into one item, for example %s#0-3,7", item, name)
		} else {
			seen[key] = true
		}
	}
}

// span is a range of functions, with both ends.
type span struct{ first, last int }

// parseRanges parses the ranges after the # of an item. It returns nil for all functions.
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
