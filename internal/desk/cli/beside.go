package cli

import (
	"context"

	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/installation"
)

// changed reports whether the user has set a flag.
func (in *input) changed(flag string) bool { return in.flags != nil && in.flags.Changed(flag) }

// readMode finds out whether Multus stays on nadra's nodes: by --beside-multus or, in a live cluster, by nadra's
// own flags. If it does, it also finds the programs that will not see the networks of converted workloads,
// and leaves pools to device plugins, as nadra does then.
func (in *input) readMode(ctx context.Context, set *manifestSet) error {
	set.Options.BesideMultus = in.beside
	if !set.Live && !in.withCluster {
		in.leavePools(set, nil)
		return nil
	}
	cluster, err := in.app.connect()
	if err != nil {
		return err
	}
	nadra, err := in.installed(ctx, cluster.Kube)
	if err != nil {
		return err
	}
	if nadra != nil && in.flags != nil && !in.changed("beside-multus") {
		set.Options.BesideMultus = nadra.BesideMultus()
	}
	in.leavePools(set, nadra)
	if !set.Options.BesideMultus {
		return nil
	}
	found, gaps := cluster.Readers(ctx)
	set.Options.Readers = found
	for _, g := range gaps {
		in.app.note("Programs that read the annotation may be missing: %s: %s", g.Reason, g.Remedy)
	}
	return nil
}

// leavePools leaves pools to device plugins beside Multus, unless a flag of the command, or of nadra in the
// cluster, says that nadra serves them. nadra is nil if its flags are unknown.
func (in *input) leavePools(set *manifestSet, nadra *installation.Settings) {
	if set.Options.BesideMultus && !in.changed("pools") {
		in.pools.off = nadra == nil || !nadra.BesideMultus() || !nadra.Pools()
	}
}

// installed returns nadra's programs in a live cluster, or nil if they are unknown.
func (in *input) installed(ctx context.Context, client kubernetes.Interface) (*installation.Settings, error) {
	s, known, err := installation.Find(ctx, client)
	switch {
	case err != nil:
		return nil, err
	case known:
		return &s, nil
	case !in.changed("beside-multus"):
		in.app.note("The flags of nadra are unknown, because you may not list daemonsets and deployments: if Multus stays on nadra's nodes, say so by --beside-multus.")
	}
	return nil, nil
}
