package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

func TestFlags(t *testing.T) {
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	if o.webhook.DefaultOwner != v1alpha1.OwnerMultus || !o.Pools || o.webhook.NoPodInfo || o.TemplateGrace != 10*time.Minute || o.webhook.Isolation.On {
		t.Errorf("the defaults are %+v", o)
	}
	o, err = parse([]string{"--pools=false", "--pod-info=false", "--default-owner=nadra", "--namespace-isolation", "--global-namespaces=shared, infra"})
	if err != nil {
		t.Fatal(err)
	}
	if o.Pools || o.webhook.Pools || !o.webhook.NoPodInfo || o.webhook.DefaultOwner != v1alpha1.OwnerNadra {
		t.Errorf("the flags gave %+v", o)
	}
	if want := []string{"shared", "infra"}; !o.webhook.Isolation.On || !slices.Equal(o.webhook.Isolation.Global, want) {
		t.Errorf("isolation is %+v, want the namespaces %v", o.webhook.Isolation, want)
	}
}

func TestFlagsBesideMultus(t *testing.T) {
	o, err := parse([]string{"--beside-multus"})
	if err != nil || !o.webhook.BesideMultus || o.Pools || o.webhook.Pools {
		t.Errorf("beside Multus: %+v, %v", o, err)
	}
	o, err = parse([]string{"--beside-multus", "--pools", "--virtual-machines=false"})
	if err != nil || !o.Pools || !o.webhook.Pools {
		t.Errorf("beside Multus, with pools: %+v, %v", o, err)
	}
}

func TestFlagsOfDefaultNetworks(t *testing.T) {
	o, err := parse(nil)
	if err != nil || len(o.webhook.DefaultNetworks) > 0 {
		t.Errorf("the defaults are %+v, %v", o, err)
	}
	o, err = parse([]string{"--default-networks=infra/lan, infra/wan", "--system-namespaces=kube-system,cni", "--namespace=own", "--namespace-isolation", "--global-namespaces=infra"})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(o.webhook.DefaultNetworks); got != "[infra/lan infra/wan]" {
		t.Errorf("the default networks are %s", got)
	}
	want := []string{"kube-system", "cni", "own"}
	if !slices.Equal(o.webhook.SystemNamespaces, want) {
		t.Errorf("the system namespaces are %v, want %v", o.webhook.SystemNamespaces, want)
	}
}

func TestInvalidFlags(t *testing.T) {
	for arg, want := range map[string]string{
		"--default-owner=both":               `--default-owner is "both"`,
		"--template-grace=0s":                "--template-grace is 0s",
		"--namespace=":                       "--namespace",
		"--beside-multus --virtual-machines": "--virtual-machines and --beside-multus ",
		"uninstal":                           `"uninstal"`,
		"--template-grace=soon":              `"soon"`,
		"--default-networks=lan":             `--default-networks is "lan"`,
		"--default-networks=infra/lan --namespace-isolation": "infra to --global-namespaces",
	} {
		if _, err := parse(strings.Fields(arg)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}
