package main

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nadra-dev/nadra/internal/nodecmd"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/driver"
)

func TestOwnershipFlags(t *testing.T) {
	const label, value = "nadra.dev/owner", "nadra"
	for _, tt := range []struct {
		args  string
		want  driver.Ownership
		names []string
	}{
		{args: "", want: driver.Ownership{Unclaimed: driver.AllowUnclaimed}},
		{args: "--unclaimed=refuse", want: driver.Ownership{Unclaimed: driver.RefuseUnclaimed}},
		{args: "--owned-nodes=labelled", want: driver.Ownership{Label: label, Value: value, Unclaimed: driver.AttachUnclaimed}},
		{args: "--owned-nodes=labelled --unclaimed=allow", want: driver.Ownership{Label: label, Value: value, Unclaimed: driver.AllowUnclaimed}},
		{args: "--owned-nodes=labelled --exempt-pods=kube-system/*,default/a-?", want: driver.Ownership{
			Label: label, Value: value, Unclaimed: driver.AttachUnclaimed, Exempt: []string{"kube-system/*", "default/a-?"},
		}},
		{args: "--beside-multus --owned-nodes=labelled", names: []string{"--beside-multus", "--owned-nodes=labelled"}},
		{args: "--profiles-only", names: []string{"--profiles-only", "--profiles"}},
		{args: "--owned-nodes=some", names: []string{`--owned-nodes is "some"`, "labelled"}},
		{args: "--unclaimed=maybe", names: []string{`--unclaimed is "maybe"`, `"attach" "refuse" "allow"`}},
		{args: "--exempt-pods=dns", names: []string{`--exempt-pods has "dns"`, "namespace/name"}},
		{args: "--exempt-pods=a/b/c", names: []string{`--exempt-pods has "a/b/c"`}},
		{args: "--exempt-pods=a/[", names: []string{`--exempt-pods has "a/["`}},
		{args: "--node-name=", names: []string{"--node-name"}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			o, err := parse(append([]string{"--node-name=n"}, strings.Fields(tt.args)...))
			if (err != nil) != (tt.names != nil) {
				t.Fatal(err)
			}
			for _, s := range tt.names {
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

func TestHardwareFlags(t *testing.T) {
	for _, tt := range []struct {
		args string
		want driver.Hardware
	}{
		{args: "", want: driver.Hardware{Configs: commonConfigs}},
		{args: "--pool-config=none --sriov-policies=sriov --sriov-resource-prefix=example.com", want: driver.Hardware{PolicyNamespace: "sriov", OperatorPrefix: "example.com"}},
		{args: "--pool-config=a/b --pool-config=c/d:e.json=f.g/h --host-root=/host", want: driver.Hardware{
			Configs: []driver.PoolConfig{{Namespace: "a", Name: "b"}, {Namespace: "c", Name: "d", Key: "e.json", Prefix: "f.g/h"}},
			SysRoot: "/host/sys", PodResources: "/host/var/lib/kubelet/pod-resources/kubelet.sock",
		}},
		{args: "--sysfs-root=/x --pod-resources-socket=/y", want: driver.Hardware{Configs: commonConfigs, SysRoot: "/x", PodResources: "/y"}},
	} {
		o, err := parse(append([]string{"--node-name=n"}, strings.Fields(tt.args)...))
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		if tt.want.SysRoot == "" {
			tt.want.SysRoot, tt.want.PodResources = "/sys", "/var/lib/kubelet/pod-resources/kubelet.sock"
		}
		if tt.want.OperatorPrefix == "" {
			tt.want.OperatorPrefix = "openshift.io"
		}
		if diff := cmp.Diff(tt.want, o.Hardware); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, diff)
		}
	}
	for _, bad := range []string{"", "a", "/b", "a/", "a/b/c"} {
		if _, err := parse([]string{"--node-name=n", "--pool-config=" + bad}); err == nil || !strings.Contains(err.Error(), "namespace/name[:key][=prefix]") {
			t.Errorf("--pool-config=%q: error %v", bad, err)
		}
	}
}

func TestProbeFlags(t *testing.T) {
	o, err := parseProbe(strings.Fields("--host-root=/host --nri-socket=/run/n.sock --cdi-dirs=/a,/b --cni-bin-dirs=/c --cni-conf-dirs=/d,/e"))
	if err != nil {
		t.Fatal(err)
	}
	want := nodecmd.ProbeOptions{Root: "/host", NRISocket: "/run/n.sock", CDIDirs: []string{"/a", "/b"}, BinDirs: []string{"/c"}, ConfDirs: []string{"/d", "/e"}}
	if diff := cmp.Diff(want, o.host, cmpopts.IgnoreFields(nodecmd.ProbeOptions{}, "Links")); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if o, err := parseProbe([]string{"--pods", "--pod-uids=a,b"}); err != nil || !o.pods || len(o.uids) != 2 {
		t.Errorf("pods: %+v, %v", o, err)
	}
	if _, err := parseProbe([]string{"more"}); err == nil || !strings.Contains(err.Error(), `"more"`) {
		t.Errorf("an argument: %v", err)
	}
}

// TestProbeWritesALine checks that the report is one line, which kubectl nadra finds in the
// pod's log.
// TestImagesOfPlugins checks that driver, probe and cleanup look for the plugins of an image in one place.
func TestImagesOfPlugins(t *testing.T) {
	args := strings.Fields("--cni-bin-dirs=/c,image:a --state-dir=/s")
	o, err := parse(append(args, "--node-name=n"))
	want := []string{"/c", "/s/images/a/current"}
	if err != nil || !slices.Equal(o.CNIBinDirs, want) || !slices.Equal(o.CNIImages, []string{"a"}) {
		t.Errorf("driver: %q of %q, %v", o.CNIBinDirs, o.CNIImages, err)
	}
	probe, err := parseProbe(args)
	if err != nil || !slices.Equal(probe.host.BinDirs, want) {
		t.Errorf("probe: %q, %v", probe.host.BinDirs, err)
	}
	cleanup, err := parseCleanup(args)
	if err != nil || !slices.Equal(cleanup.BinDirs, want) {
		t.Errorf("cleanup: %q, %v", cleanup.BinDirs, err)
	}
	for _, parses := range []func() error{
		func() error { _, err := parse([]string{"--node-name=n", "--cni-bin-dirs=image:A"}); return err },
		func() error { _, err := parseProbe([]string{"--cni-bin-dirs=image:A"}); return err },
		func() error { _, err := parseCleanup([]string{"--cni-bin-dirs=image:A"}); return err },
	} {
		if err := parses(); err == nil || !strings.Contains(err.Error(), `"image:A"`) {
			t.Errorf("a name that no volume can have: %v", err)
		}
	}
}

func TestProbeWritesALine(t *testing.T) {
	var out strings.Builder
	if err := runProbe(t.Context(), []string{"--host-root=" + t.TempDir()}, &out); err != nil {
		t.Fatal(err)
	}
	report, err := probe.Decode[probe.Report]([]byte("a warning\n"+out.String()), probe.Kind)
	if err != nil || report.NRI.Found || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("report %+v, %v, of %q", report, err, out.String())
	}
}

// TestCanary checks that kubectl nadra can decode the reports of a canary.
func TestCanary(t *testing.T) {
	var out strings.Builder
	if err := runCanary(t.Context(), []string{"inspect"}, &out); err != nil {
		t.Fatal(err)
	}
	if _, err := probe.Decode[probe.Inspection]([]byte(out.String()), probe.InspectionKind); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%v of %q", err, out.String())
	}
	out.Reset()
	if err := runCanary(t.Context(), []string{"ping", "--interface=absent", "--count=1", "10.0.0.1", "fd00::1"}, &out); err != nil {
		t.Fatal(err)
	}
	if pings, err := probe.Decode[probe.Pings]([]byte(out.String()), probe.PingsKind); err != nil || len(pings.Pings) != 2 || pings.Pings[1].Address != "fd00::1" || pings.Pings[0].Sent != 0 {
		t.Errorf("%+v, %v", pings, err)
	}
	for want, args := range map[string][]string{
		`""`:     nil,
		`"sing"`: {"sing"},
		`"me"`:   {"ping", "me"},
		"-x":     {"serve", "-x"},
	} {
		if err := runCanary(t.Context(), args, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v", args, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := runCanary(ctx, []string{"serve", "--port=0"}, &out); err != nil {
		t.Errorf("serving until ctx ends: %v", err)
	}
}

// TestProbeOfPods checks that the end of the report is a line of its own.
func TestProbeOfPods(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(os.MkdirAll(root+"/proc", 0o755), os.MkdirAll(root+"/sys", 0o755)); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := runProbe(t.Context(), []string{"--pods", "--host-root=" + root}, &out); err != nil {
		t.Fatal(err)
	}
	pods, err := probe.DecodePods([]byte(out.String()))
	if err != nil || len(pods.Pods) != 0 || len(pods.Errors) != 0 {
		t.Errorf("%+v, %v of %q", pods, err, out.String())
	}
}

// TestCommands checks that help lists every subcommand, that each has help of its own and
// rejects an unknown flag, and that an unknown subcommand is not taken for the driver.
func TestCommands(t *testing.T) {
	help := output(t, "help")
	for _, c := range commands() {
		if !strings.Contains(help, "nadra-node "+c.name+" ") || !strings.Contains(help, "(for "+c.user()+")") {
			t.Errorf("the help lacks %s:\n%s", c.name, help)
		}
		own := output(t, c.name, "-h")
		if !strings.HasPrefix(own, c.usage()+"\n") || !strings.Contains(own, c.summary[1:]) || !strings.Contains(own, c.usedBy) {
			t.Errorf("nadra-node %s -h:\n%s", c.name, own)
		}
		if other := output(t, "help", c.name); other != own {
			t.Errorf("nadra-node help %s:\n%s", c.name, other)
		}
		if long := output(t, c.name, "--help"); long != own {
			t.Errorf("nadra-node %s --help:\n%s", c.name, long)
		}
		var out strings.Builder
		if err := run(t.Context(), []string{c.name, "--absent"}, &out); err == nil || out.Len() > 0 {
			t.Errorf("nadra-node %s --absent: %v, output %q", c.name, err, out.String())
		}
	}
	for _, args := range [][]string{{"prove"}, {"help", "prove"}, {"prove", "-h"}} {
		err := run(t.Context(), args, io.Discard)
		if err == nil || !strings.Contains(err.Error(), `"prove"`) {
			t.Errorf("nadra-node %s: %v", strings.Join(args, " "), err)
			continue
		}
		for _, c := range commands() {
			if !strings.Contains(err.Error(), c.name) {
				t.Errorf("the error lacks command %s: %v", c.name, err)
			}
		}
	}
}

// TestVersion checks that --version needs no other flag, with a subcommand and without.
func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"-version"}, {"probe", "--version"}} {
		if got := output(t, args...); !regexp.MustCompile(`^nadra-node \S+ \(.*go1\.\S+\)\n$`).MatchString(got) {
			t.Errorf("%q prints %q", args, got)
		}
	}
	if help := output(t, "help"); !strings.Contains(help, "nadra-node --version\n") {
		t.Errorf("the help lacks --version:\n%s", help)
	}
}

// TestHelpHasFlags checks that help lists the flags of the driver and of subcommands.
func TestHelpHasFlags(t *testing.T) {
	for args, want := range map[string][]string{
		"-h":               {"nadra-node [flags]\n", "-node-name", "-hook-budget", "-pool-config"},
		"--help":           {"-node-name"},
		"probe -h":         {"-cni-conf-dirs", "-pod-uids"},
		"cleanup -h":       {"-apply"},
		"multus -h":        {"(off | on | await | check | adopted | returned)", "-keep-in"},
		"uninstall -h":     {"-remove"},
		"canary ping -h":   {"Flags of nadra-node canary ping:", "-count"},
		"canary serve -h":  {"Flags of nadra-node canary serve:", "-port"},
		"probe --pods --h": {"-pod-uids"},
	} {
		got := output(t, strings.Fields(args)...)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("nadra-node %s lacks %q:\n%s", args, w, got)
			}
		}
	}
	err := run(t.Context(), []string{"probe", "--absent"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "-absent: nadra-node probe -h ") {
		t.Errorf("an unknown flag: %v", err)
	}
}

// output returns the output of nadra-node, which must succeed.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out strings.Builder
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatalf("nadra-node %s: %v", strings.Join(args, " "), err)
	}
	return out.String()
}
