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
	out.Plugins, out.IPAM = parsed.Programs()
	for _, p := range parsed.Plugins {
		out.MAC = cmp.Or(strings.ToLower(p.MAC), out.MAC)
		for _, subnet := range p.IPAM.Prefixes() {
			if text := subnet.String(); !slices.Contains(out.Subnets, text) {
				out.Subnets = append(out.Subnets, text)
			}
		}
		for _, fixed := range p.IPAM.Fixed() {
			if address, ok := addressOf(fixed); ok {
				out.Static = append(out.Static, address.String())
			}
		}
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

// addressOf parses an address with or without its prefix length.
func addressOf(text string) (netip.Addr, bool) {
	text, _, _ = strings.Cut(text, "/")
	a, err := netip.ParseAddr(text)
	return a.Unmap().WithZone(""), err == nil
}
