package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The values that are not compared unmodified. Each entry says why the two sides cannot be
// equal there.

// pairs returns the CNI_ARGS, the first value of each key. Multus without its daemon
// repeats the runtime's arguments after its own.
func pairs(args string) [][2]string {
	var out [][2]string
	for _, pair := range strings.Split(args, ";") {
		key, value, _ := strings.Cut(pair, "=")
		if key != "" && !slices.ContainsFunc(out, func(p [2]string) bool { return p[0] == key }) {
			out = append(out, [2]string{key, value})
		}
	}
	return out
}

// distinct removes repetitions. Multus puts its binDir before the CNI_PATH of the runtime,
// which has the same directory.
func distinct(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// normalised replaces random values by the names of their places, so that equal values stay
// equal everywhere. Random are MAC addresses that were not requested, and the names of the
// pairs' ends on the node.
func normalised(s Side, known string) Side {
	n := namer{known: strings.ToLower(known), names: map[string]string{}}
	n.learnState(s.Added)
	for _, c := range s.Calls {
		n.learn(c.Env["CNI_IFNAME"], parsed(c.Stdin))
	}
	if text, err := json.Marshal(s); err == nil {
		var out Side
		if json.Unmarshal([]byte(n.rename(string(text))), &out) == nil {
			return out
		}
	}
	return s
}

var (
	macForm = regexp.MustCompile(`\b[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}\b`)
	// The reference plugins name the end on the node so.
	pairForm = regexp.MustCompile(`\b(veth|mac|bwp)[0-9a-f]{8,}\b`)
)

// standInMAC begins the addresses that the suite's own plugins give, which are the same on
// both sides. It is long, so that none of the thousands of random addresses in a run begins
// with it.
const standInMAC = "02:5a:6e:61:"

type namer struct {
	known string
	names map[string]string
}

func (n namer) learnState(s State) {
	links, _ := s["links"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(links)) {
		link, _ := links[name].(map[string]any)
		mac, _ := link["mac"].(string)
		n.name(mac, "MAC of "+name)
	}
}

// learn walks over a configuration and names what its prevResult lists.
func (n namer) learn(iface string, tree any) {
	config, _ := tree.(map[string]any)
	previous, _ := config["prevResult"].(map[string]any)
	interfaces, _ := previous["interfaces"].([]any)
	for i, v := range interfaces {
		entry, _ := v.(map[string]any)
		name, _ := entry["name"].(string)
		mac, _ := entry["mac"].(string)
		if pairForm.MatchString(name) {
			label := fmt.Sprintf("end %d of %s", i, iface)
			n.name(name, label)
			name = n.names[strings.ToLower(name)]
		}
		n.name(mac, "MAC of "+name)
	}
}

// name gives a value a name, unless it has one.
func (n namer) name(value, label string) {
	value = strings.ToLower(value)
	_, named := n.names[value]
	if value == "" || named || strings.Contains(n.known, value) || strings.HasPrefix(value, standInMAC) {
		return
	}
	n.names[value] = "<" + label + ">"
}

func (n namer) rename(text string) string {
	replace := func(value string) string {
		if label, ok := n.names[strings.ToLower(value)]; ok {
			return label
		}
		if strings.Contains(n.known, strings.ToLower(value)) || strings.HasPrefix(strings.ToLower(value), standInMAC) {
			return value
		}
		return "<random>"
	}
	return pairForm.ReplaceAllStringFunc(macForm.ReplaceAllStringFunc(text, replace), replace)
}
