package pools

import (
	"encoding/json"
	"errors"
	"slices"
)

// Options are flags of the device plugins.
type Options struct {
	// SRIOVPrefix is the domain of resources of the SR-IOV device plugin without
	// resourcePrefix, or empty for defaultSRIOVPrefix.
	SRIOVPrefix string
}

// The device plugins' default domains.
const (
	defaultSRIOVPrefix    = "intel.com"
	DefaultOperatorPrefix = "openshift.io"
	defaultRDMAPrefix     = "rdma"
)

// ParseConfig parses the configuration of the SR-IOV device plugin, which has the field
// resourceList, or of the RDMA shared device plugin, which has the field configList. It
// leaves out pools with an error and joins these errors.
func ParseConfig(source Source, raw []byte, o Options) ([]Pool, error) {
	top, err := newObject(source, raw)
	if err != nil {
		return nil, err
	}
	if list := top.take("resourceList"); list != nil {
		return parseList(top, "resourceList", list, func(s Source, raw []byte) (Pool, error) { return parseSRIOV(s, raw, o) })
	}
	if list := top.take("configList"); list != nil {
		top.take("periodicUpdateInterval") // nadra watches for changes
		return parseList(top, "configList", list, parseRDMA)
	}
	return nil, source.errorf("neither resourceList (SR-IOV device plugin) nor configList (RDMA shared device plugin) is set: " +
		"name another key with --pool-config")
}

// parseList parses each pool of a list.
func parseList(top *object, field string, raw json.RawMessage, parse func(Source, []byte) (Pool, error)) ([]Pool, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		top.fail(field, "%s is not a list", brief(raw))
	}
	var out []Pool
	for i, raw := range list {
		p, err := parse(top.source.item(field, i), raw)
		if err != nil {
			top.errs = append(top.errs, err)
			continue
		}
		out = append(out, p)
	}
	err := top.end("remove it")
	return out, err
}

// parseSRIOV parses an entry of the SR-IOV device plugin's resourceList.
func parseSRIOV(source Source, raw []byte, options Options) (Pool, error) {
	o, err := newObject(source, raw)
	if err != nil {
		return Pool{}, err
	}
	p := Pool{Source: source, DeviceType: NetDevice}
	prefix, name, deviceType := options.SRIOVPrefix, "", ""
	if prefix == "" {
		prefix = defaultSRIOVPrefix
	}
	o.prefix(&prefix)
	o.get("resourceName", &name)
	o.get("deviceType", &deviceType)
	o.get("excludeTopology", &p.ExcludeTopology)
	o.get("additionalInfo", &p.AdditionalInfo)
	if err := checkResourceName(prefix, name); err != nil {
		o.fail("resourceName", "%w", err)
	}
	p.ResourceName = prefix + "/" + name
	if deviceType != "" {
		p.DeviceType = DeviceType(deviceType)
	}
	if known := []DeviceType{NetDevice, Accelerator, AuxNetDevice}; !slices.Contains(known, p.DeviceType) {
		o.fail("deviceType", "%q: it must be one of %s, %s and %s", deviceType, NetDevice, Accelerator, AuxNetDevice)
		o.take("selectors") // they depend on the type
		return Pool{}, o.end(remedySelector)
	}
	var errs []error
	p.Selectors, errs = parseSelectors(source.at("selectors"), p.DeviceType, o.take("selectors"))
	o.errs = append(o.errs, errs...)
	return p, o.end(remedySelector)
}

// prefix replaces the default domain by resourcePrefix, unless that is empty.
func (o *object) prefix(into *string) {
	var own string
	if o.get("resourcePrefix", &own); own != "" {
		*into = own
	}
}

// parseRDMA parses an entry of the RDMA shared device plugin's configList.
func parseRDMA(source Source, raw []byte) (Pool, error) {
	o, err := newObject(source, raw)
	if err != nil {
		return Pool{}, err
	}
	p := Pool{Source: source, DeviceType: SharedRDMA}
	prefix, name := defaultRDMAPrefix, ""
	var ifNames []string
	o.prefix(&prefix)
	o.get("resourceName", &name)
	o.get("rdmaHcaMax", &p.Share)
	o.get("devices", &ifNames)
	if err := checkResourceName(prefix, name); err != nil {
		o.fail("resourceName", "%w", err)
	}
	p.ResourceName = prefix + "/" + name
	if p.Share < 1 {
		o.fail("rdmaHcaMax", "%d: the number of pods that may share the devices must be at least 1", p.Share)
	}
	s, err := parseRDMASelector(source.at("selectors"), o.take("selectors"))
	if err != nil {
		o.errs = append(o.errs, err)
	}
	switch {
	case len(ifNames) > 0 && !s.empty():
		o.fail("devices", "%q: the pool also has selectors: move the names to selectors.ifNames", ifNames)
	case len(ifNames) == 0 && s.empty() && err == nil:
		o.fail("selectors", "neither selectors nor devices are set: select the pool's devices")
	case s.empty():
		s.IfNames = ifNames
	}
	s.IsRDMA = true
	p.Selectors = []Selector{s}
	return p, o.end("remove it")
}

// parseRDMASelector parses the selectors of the RDMA shared device plugin.
func parseRDMASelector(source Source, raw json.RawMessage) (Selector, error) {
	if raw == nil || string(raw) == "null" {
		return Selector{}, nil
	}
	o, err := newObject(source, raw)
	if err != nil {
		return Selector{}, err
	}
	var s Selector
	o.get("vendors", &s.Vendors)
	o.get("deviceIDs", &s.Devices)
	o.get("drivers", &s.Drivers)
	o.get("ifNames", &s.IfNames)
	o.get("linkTypes", &s.LinkTypes)
	return s, o.end(remedySelector)
}

// empty reports whether none of the RDMA shared device plugin's selectors is set.
func (s Selector) empty() bool {
	return len(s.Vendors)+len(s.Devices)+len(s.Drivers)+len(s.IfNames)+len(s.LinkTypes) == 0
}

// Unique returns the pools without those whose name an earlier pool has, and an error for
// each of these.
func Unique(pools []Pool) ([]Pool, error) {
	var out []Pool
	var errs []error
	first := map[string]Source{}
	for _, p := range pools {
		if of, ok := first[p.ResourceName]; ok {
			errs = append(errs, p.Source.conflict("resourceName %s is also defined by %s, which has precedence: choose another name, or merge the two pools", p.ResourceName, of))
			continue
		}
		first[p.ResourceName] = p.Source
		out = append(out, p)
	}
	return out, errors.Join(errs...)
}
