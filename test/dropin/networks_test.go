//go:build e2e

package dropin

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var getOptions = metav1.GetOptions{}

// networks are the NADs of most tests. Networks and bridges have names of the test's own,
// because host-local keeps addresses by the network's name.
const networks = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: lan}
spec:
  config: '{"cniVersion":"0.3.1","name":"TESTNS-lan","type":"macvlan","master":"lan0","mode":"bridge",
    "ipam":{"type":"host-local","subnet":"10.70.0.0/24","rangeStart":"10.70.0.10","rangeEnd":"10.70.0.99",
      "routes":[{"dst":"10.170.0.0/16","gw":"10.70.0.1"}]}}'
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: store}
spec:
  config: '{"cniVersion":"1.0.0","name":"TESTNS-store","plugins":[
    {"type":"bridge","bridge":"br-TESTNS","mtu":1400,"capabilities":{"ips":true},
      "ipam":{"type":"static","routes":[{"dst":"10.171.0.0/16","gw":"10.71.0.1"}]}},
    {"type":"tuning","capabilities":{"mac":true},
      "sysctl":{"net.ipv4.conf.IFNAME.arp_filter":"1","net.ipv4.conf.IFNAME.rp_filter":"2"}}]}'
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: fixed}
spec:
  config: '{"cniVersion":"0.3.1","type":"macvlan","master":"lan0","mode":"bridge","mtu":1450,
    "ipam":{"type":"static","addresses":[{"address":"10.72.0.9/24","gateway":"10.72.0.1"},{"address":"fd00:72::9/64"}],
      "routes":[{"dst":"10.172.0.0/16"}]}}'
`

// networks creates the NADs in the test's namespace.
func (f *fixture) networks() {
	f.Helper()
	f.links = append(f.links, "br-"+f.NS)
	f.ApplyYAML(strings.ReplaceAll(networks, "TESTNS", f.NS))
}
