package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/driver"
)

func TestOwnershipFlags(t *testing.T) {
	const label, value = "nadra.dev/owner", "nadra"
	for _, tt := range []struct {
		args string
		want driver.Ownership
		says []string
	}{
		{args: "", want: driver.Ownership{}},
		{args: "--unclaimed=refuse", want: driver.Ownership{Refuse: true}},
		{args: "--owned-nodes=labelled", want: driver.Ownership{Label: label, Value: value, Refuse: true}},
		{args: "--owned-nodes=labelled --unclaimed=allow", want: driver.Ownership{Label: label, Value: value}},
		{args: "--owned-nodes=labelled --exempt-pods=kube-system/*,default/a-?", want: driver.Ownership{
			Label: label, Value: value, Refuse: true, Exempt: []string{"kube-system/*", "default/a-?"},
		}},
		{args: "--owned-nodes=some", says: []string{`--owned-nodes is "some"`, "all or labelled"}},
		{args: "--unclaimed=maybe", says: []string{`--unclaimed is "maybe"`, "refuse or allow"}},
		{args: "--exempt-pods=dns", says: []string{`--exempt-pods has "dns"`, "namespace/name"}},
		{args: "--exempt-pods=a/b/c", says: []string{`--exempt-pods has "a/b/c"`}},
		{args: "--exempt-pods=a/[", says: []string{`--exempt-pods has "a/["`}},
		{args: "--node-name=", says: []string{"--node-name is required"}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			o, err := parse(append([]string{"--node-name=n"}, strings.Fields(tt.args)...))
			if (err != nil) != (tt.says != nil) {
				t.Fatal(err)
			}
			for _, s := range tt.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error lacks %q: %v", s, err)
				}
			}
			if diff := cmp.Diff(tt.want, o.Ownership, cmp.Transformer("nil", func(l []string) string { return strings.Join(l, ",") })); diff != "" && err == nil {
				t.Errorf("ownership (-want +got):\n%s", diff)
			}
		})
	}
}
