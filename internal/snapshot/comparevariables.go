package snapshot

import (
	"encoding/json"
	"strings"
)

// variables compares those of the containers' processes, where both nodes were
// asked, and else those that the cluster tells.
func (c *podComparison) variables() {
	was, now := c.was.Env, c.now.Env
	if c.bothSeen() {
		was, now = c.was.Seen.Env, c.now.Seen.Env
	}
	has := map[Variable]string{} // without the value
	for _, v := range now {
		has[Variable{Container: v.Container, Name: v.Name}] = v.Value
	}
	for _, v := range was {
		value, there := has[Variable{Container: v.Container, Name: v.Name}]
		switch {
		case !there:
			c.add(VariableLost, nil, v.Value, "", "%s is missing%s", v.Name, inContainer(v.Container))
		case value != v.Value:
			c.variable(v, value)
		}
	}
}

func inContainer(name string) string {
	if name == "" {
		return ""
	}
	return " in container " + name
}

// variable compares two values of one variable.
func (c *podComparison) variable(was Variable, now string) {
	isList, isInfo := isDevices(was.Name), strings.HasSuffix(was.Name, infoSuffix) && strings.HasPrefix(was.Name, "PCIDEVICE_")
	what := was.Name + inContainer(was.Container)
	switch {
	case isList && strings.Count(was.Value, ",") != strings.Count(now, ","):
		c.changed(VariableCount, nil, what, was.Value, now)
	case isList:
		c.changed(VariableOther, nil, what, was.Value, now)
	case isInfo && described(was.Value) == described(now):
		// The list of the same devices tells it already.
	case isInfo:
		c.add(VariableCount, nil, was.Value, now, "%s described %d devices, and describes %d", what, described(was.Value), described(now))
	default:
		c.changed(VariableValue, nil, what, was.Value, now)
	}
}

// described is how many devices a variable that ends in _INFO describes; -1
// where it cannot be read.
func described(info string) int {
	var devices map[string]json.RawMessage
	if json.Unmarshal([]byte(info), &devices) != nil {
		return -1
	}
	return len(devices)
}
