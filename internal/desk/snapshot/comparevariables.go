package snapshot

import (
	"encoding/json"
	"strings"
)

// variables compares environment variables about networks and devices: those of the containers' processes if both
// nodes observed them, and otherwise those that the cluster's objects determine.
func (c *podPair) variables() {
	was, now := c.was.Env, c.now.Env
	if c.observed() {
		was, now = c.was.Observed.Env, c.now.Observed.Env
	}
	values := map[variable]string{} // by variable without its value
	for _, v := range now {
		values[variable{Container: v.Container, Name: v.Name}] = v.Value
	}
	for _, v := range was {
		value, found := values[variable{Container: v.Container, Name: v.Name}]
		switch {
		case !found:
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

// variable compares two values of a variable.
func (c *podPair) variable(was variable, now string) {
	isList, isInfo := isDevices(was.Name), strings.HasSuffix(was.Name, infoSuffix) && strings.HasPrefix(was.Name, "PCIDEVICE_")
	what := was.Name + inContainer(was.Container)
	switch {
	case isList && strings.Count(was.Value, ",") != strings.Count(now, ","):
		c.changed(VariableCount, nil, what, was.Value, now)
	case isList:
		c.changed(VariableOther, nil, what, was.Value, now)
	case isInfo && described(was.Value) == described(now):
		// The variable that lists the same devices is compared, too.
	case isInfo:
		c.add(VariableCount, nil, was.Value, now, "%s described %d devices, and describes %d", what, described(was.Value), described(now))
	default:
		c.changed(VariableValue, nil, what, was.Value, now)
	}
}

// described returns the number of devices that a variable ending in _INFO describes, or
// -1 for an invalid value.
func described(info string) int {
	var devices map[string]json.RawMessage
	if json.Unmarshal([]byte(info), &devices) != nil {
		return -1
	}
	return len(devices)
}
