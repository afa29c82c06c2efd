package snapshot

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// networksOf returns the networks that the pods use, and the known ones.
func (in *Input) networksOf(pods []Pod) []Network {
	used := map[string]bool{}
	for _, name := range in.Known {
		used[name] = true
	}
	for i := range pods {
		for _, n := range pods[i].Interfaces {
			if !n.Default {
				used[n.Network] = true
			}
		}
		for _, l := range pods[i].Lacking {
			used[l.Network] = true
		}
	}
	out := []Network{}
	for _, nad := range in.Networks {
		if n := networkOf(nad); used[n.String()] {
			out = append(out, n)
			delete(used, n.String())
		}
	}
	for name := range used {
		namespace, name, ok := strings.Cut(name, "/")
		if ok && namespace != "" && name != "" && !in.Unread[inspect.Networks] {
			out = append(out, Network{Namespace: namespace, Name: name, Missing: true})
		}
	}
	slices.SortFunc(out, func(a, b Network) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// networkOf records a NetworkAttachmentDefinition. Of an invalid one it records only the
// digest.
func networkOf(nad *nadv1.NetworkAttachmentDefinition) Network {
	out := Network{
		Namespace: nad.Namespace, Name: nad.Name, Pool: attachment.PoolOf(nad.Annotations), Digest: digest(nad.Spec.Config),
	}
	parsed, err := attachment.ParseNetwork(nad)
	if err != nil {
		return out
	}
	for _, p := range parsed.Plugins {
		out.Plugins = append(out.Plugins, p.Type)
		if p.IPAM != "" && !slices.Contains(out.IPAM, p.IPAM) {
			out.IPAM = append(out.IPAM, p.IPAM)
		}
	}
	var chain struct {
		Plugins []struct {
			MAC  string          `json:"mac"`
			IPAM json.RawMessage `json:"ipam"`
		} `json:"plugins"`
	}
	_ = json.Unmarshal(parsed.Conflist, &chain) // plugins check the types of their fields
	for _, p := range chain.Plugins {
		out.MAC = cmp.Or(strings.ToLower(p.MAC), out.MAC)
		out.addIPAM(p.IPAM)
	}
	return out
}

// digest returns a hash of a configuration, regardless of its white space.
func digest(config string) string {
	if config == "" {
		return ""
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(config)) != nil {
		b.Reset()
		b.WriteString(config)
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:8])
}

// ipam has the subnets and addresses of IPAM configurations: host-local's subnet and
// ranges, whereabouts' range and ipRanges, static's addresses.
type ipam struct {
	Type    string `json:"type"`
	Subnet  string `json:"subnet"`
	Range   string `json:"range"`
	Ranges  []any  `json:"ranges"`
	IPRange []struct {
		Range string `json:"range"`
	} `json:"ipRanges"`
	Addresses []struct {
		Address string `json:"address"`
	} `json:"addresses"`
}

// addIPAM adds the subnets and static addresses of an IPAM configuration.
func (n *Network) addIPAM(raw json.RawMessage) {
	var conf ipam
	if json.Unmarshal(raw, &conf) != nil {
		return
	}
	texts := []string{conf.Subnet, conf.Range}
	for _, r := range conf.IPRange {
		texts = append(texts, r.Range)
	}
	for _, set := range conf.Ranges {
		texts = append(texts, subnetsIn(set)...)
	}
	for _, text := range texts {
		// whereabouts takes first-last/length, too.
		if _, last, isRange := strings.Cut(text, "-"); isRange {
			text = last
		}
		if p, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil && !slices.Contains(n.Subnets, p.Masked().String()) {
			n.Subnets = append(n.Subnets, p.Masked().String())
		}
	}
	for _, a := range conf.Addresses {
		if address, ok := addressOf(a.Address); ok && conf.Type == "static" {
			n.Static = append(n.Static, address.String())
		}
	}
}

// subnetsIn returns the subnets of a range set: a list of objects, or one object.
func subnetsIn(set any) []string {
	var out []string
	switch set := set.(type) {
	case []any:
		for _, one := range set {
			out = append(out, subnetsIn(one)...)
		}
	case map[string]any:
		if subnet, ok := set["subnet"].(string); ok {
			out = append(out, subnet)
		}
	}
	return out
}

// addressOf parses an address with or without its prefix length.
func addressOf(text string) (netip.Addr, bool) {
	text, _, _ = strings.Cut(text, "/")
	a, err := netip.ParseAddr(text)
	return a.Unmap().WithZone(""), err == nil
}
