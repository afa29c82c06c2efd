package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/nadra-dev/nadra/internal/multusstate"
	"github.com/nadra-dev/nadra/internal/podnet"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/internal/probe"
)

// awaitLimit limits how long a subcommand waits. Its pod has a minute.
const awaitLimit = 40 * time.Second

// runMultus does one part of a node's move from or to Multus, and reports what it did.
func runMultus(ctx context.Context, args []string, out io.Writer) error {
	var dirs multusstate.ConfDirs
	var hostRoot, cniDir string
	fs := newFlagSet("multus")
	fs.StringVar(&dirs.Conf, "cni-conf-dir", "/etc/cni/net.d", "directory of CNI configurations that the container runtime reads")
	fs.StringVar(&dirs.Kept, "keep-in", "/var/lib/nadra/multus", "directory that keeps Multus' configuration for a rollback")
	fs.StringVar(&hostRoot, "host-root", "/", "the host's root directory")
	fs.StringVar(&cniDir, "multus-cni-dir", "/var/lib/cni/multus", "directory in which Multus keeps what it has attached, in the host; Multus' cniDir")
	if err := parseArgs(fs, args); err != nil {
		return err
	}
	state := multusstate.Dir{Multus: filepath.Join(hostRoot, cniDir)}
	do := map[string]func(context.Context) (any, error){
		"off":   func(context.Context) (any, error) { return dirs.Take() },
		"on":    func(context.Context) (any, error) { return dirs.Give() },
		"await": func(ctx context.Context) (any, error) { return dirs.Await(ctx) },
		"check": func(context.Context) (any, error) {
			links, err := linksOf(hostRoot)
			if err != nil {
				return nil, err
			}
			return state.Check(links)
		},
		"adopted": func(ctx context.Context) (any, error) { return probe.MultusReport{}, state.AwaitAdopted(ctx) },
		"returned": func(ctx context.Context) (any, error) {
			links, err := linksOf(hostRoot)
			if err != nil {
				return nil, err
			}
			return probe.MultusReport{}, state.AwaitReturned(ctx, links)
		},
	}[fs.Arg(0)]
	if do == nil || fs.NArg() != 1 {
		return fmt.Errorf("the arguments are %q: use one of off, on, await, check, adopted and returned", fs.Args())
	}
	ctx, cancel := context.WithTimeout(ctx, awaitLimit)
	defer cancel()
	report, err := do(ctx)
	if err != nil {
		return err
	}
	return writeReport(out, report)
}

// linksOf returns a function that lists the interfaces of a pod's network namespace.
func linksOf(hostRoot string) (multusstate.Namespaces, error) {
	opener, err := podns.New(hostRoot)
	if err != nil {
		return nil, err
	}
	reader := podnet.NewReader(opener, nil)
	return func(path string) ([]string, error) {
		if path == "" {
			return nil, podns.ErrGone
		}
		ns, err := reader.Inspect(path)
		return ns.Links, err
	}, nil
}
