package drivertest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// Web is the pod of most tests.
var Web = attachment.PodRef{Namespace: "default", Name: "web", UID: "web-uid"}

// SandboxNo returns a sandbox of Web.
func SandboxNo(i int) attachment.Sandbox {
	return attachment.Sandbox{ID: fmt.Sprintf("sandbox-%d", i), NetNS: fmt.Sprintf("/run/netns/%d", i), Pod: Web}
}

// CBR0 describes a default network.
func CBR0(context.Context, attachment.Sandbox) ([]*nadv1.NetworkStatus, error) {
	return []*nadv1.NetworkStatus{{Name: "cbr0", Interface: "eth0", Default: true}}, nil
}

// BridgeResult is the result of a bridge: the bridge, and both ends of a veth pair.
const BridgeResult = `{"cniVersion":"1.1.0","interfaces":[
	{"name":"br0","mac":"02:00:00:00:00:01"},
	{"name":"veth1","mac":"02:00:00:00:00:02"},
	{"name":"net1","mac":"02:00:00:00:00:03","sandbox":"/run/netns/1"}],
	"ips":[{"interface":2,"address":"10.1.0.5/24","gateway":"10.1.0.1"},{"interface":2,"address":"fd00:0::5/64"},{"interface":0,"address":"10.1.0.1/24"}],
	"routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.1"}]}`

// Attached returns a record of network default/blue, attached with this result.
func Attached(ifName, result string) checkpoint.Record {
	return checkpoint.Record{
		Prepared: attachment.Prepared{
			Pool: "p", Device: "d", ShareID: "6b0f3d62-6c1c-4f5b-9a59-0f8b8f2f6a10",
			Attachment: attachment.Attachment{Network: attachment.NetworkRef{Namespace: "default", Name: "blue"}, Interface: ifName},
		},
		Phase: checkpoint.Attached, Result: json.RawMessage(result),
	}
}

// PrepareWeb stores a claim of Web for each group of interfaces.
func PrepareWeb(t *testing.T, store *checkpoint.Store, claims ...[]string) {
	t.Helper()
	index := 0
	for c, interfaces := range claims {
		var ps []attachment.Prepared
		for _, ifName := range interfaces {
			ps = append(ps, attachment.Prepared{
				Claim: attachment.ClaimRef{Namespace: "default", Name: fmt.Sprintf("claim-%d", c), UID: fmt.Sprintf("claim-%d-uid", c)},
				Pod:   Web, Request: ifName, Pool: "p", Device: "d", Index: index,
				Attachment: attachment.Attachment{
					Network: attachment.NetworkRef{Namespace: "default", Name: "blue"}, Interface: ifName,
					Conflist: json.RawMessage(`{}`),
				},
			})
			index++
		}
		if err := store.Put(ps); err != nil {
			t.Fatal(err)
		}
	}
}

// Phases returns the phase of each interface.
func Phases(store *checkpoint.Store) map[string]checkpoint.Phase {
	out := map[string]checkpoint.Phase{}
	for _, r := range store.All() {
		out[r.Attachment.Interface] = r.Phase
	}
	return out
}

// OpenStore returns a Store with all records below dir, as New and Load do.
func OpenStore(dir, bootID string) (*checkpoint.Store, []checkpoint.Damaged, error) {
	s := checkpoint.New(dir, bootID)
	damaged, err := s.Load()
	return s, damaged, err
}
