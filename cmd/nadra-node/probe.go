package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/nadra-dev/nadra/internal/nodecmd"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// probeOptions are the flags of the probe.
type probeOptions struct {
	host nodecmd.ProbeOptions
	// pods selects the pods' network namespaces instead of the host.
	pods bool
	// uids are the UIDs of the pods to look into; empty for all.
	uids []string
}

func parseProbe(args []string) (probeOptions, error) {
	var o probeOptions
	var cdi, bins, confs, uids string
	fs := newFlagSet("probe")
	fs.StringVar(&o.host.Root, "host-root", "/", "the host's root directory")
	fs.StringVar(&o.host.NRISocket, "nri-socket", "/var/run/nri/nri.sock", "NRI socket of the container runtime, in the host")
	fs.StringVar(&cdi, "cdi-dirs", "/etc/cdi,/var/run/cdi", "comma-separated directories of CDI specs, in the host")
	state := fs.String("state-dir", "/var/lib/nadra", "directory of nadra's state, in the host")
	addBinDirs(fs, &bins)
	fs.StringVar(&confs, "cni-conf-dirs", "/etc/cni/net.d,/etc/cni/multus/net.d", "comma-separated directories of CNI configurations, in the host")
	fs.BoolVar(&o.pods, "pods", false, "report the network namespaces of the node's pods instead; needs SYS_ADMIN and SYS_PTRACE")
	fs.StringVar(&uids, "pod-uids", "", "comma-separated UIDs of the pods to report (default all)")
	if err := parseFlags(fs, args); err != nil {
		return o, err
	}
	var err error
	if o.host.BinDirs, _, err = cniexec.BinDirs(bins, *state); err != nil {
		return o, err
	}
	o.host.CDIDirs, o.host.ConfDirs = strings.Split(cdi, ","), strings.Split(confs, ",")
	o.uids = splitList(uids)
	return o, nil
}

// runProbe reports the host in one line, or each pod in a line of its own and a last
// line about all of them.
func runProbe(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseProbe(args)
	if err != nil {
		return err
	}
	if !o.pods {
		return writeReport(out, nodecmd.Probe(ctx, o.host))
	}
	end, err := nodecmd.ProbePods(ctx, nodecmd.PodOptions{Root: o.host.Root, UIDs: o.uids},
		func(r probe.PodReport) error { return json.NewEncoder(out).Encode(r) })
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return writeReport(out, end)
}
