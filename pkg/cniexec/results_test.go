package cniexec

import (
	"encoding/json"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/google/go-cmp/cmp"
)

func TestAddresses(t *testing.T) {
	tests := map[string][]string{
		`{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.5/24"},{"address":"10.1.0.5/24"}]}`:                                          {"10.1.0.5/24"},
		`{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"x"}],"ips":[{"interface":7,"address":"10.1.0.5/24"}]}`:         nil,
		`{"cniVersion":"1.1.0","interfaces":[{"name":"net1","sandbox":"x"}],"ips":[{"interface":0,"address":"::ffff:10.1.0.5/120"}]}`: {"10.1.0.5/24"},
		`{"cniVersion":"1.1.0"}`: nil,
	}
	for raw, want := range tests {
		var result types100.Result
		if err := json.Unmarshal([]byte(raw), &result); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range Addresses(&result) {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}
