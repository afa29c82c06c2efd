package vm

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// iptablesFolder is the folder of iptables in the guest. It is in the PATH that plugins get
// from the container runtime, but not in that of the guest's daemons, because the kubelet
// would maintain tables of its own, which is slow.
const iptablesFolder = "/usr/local/sbin"

// iptablesProgram is iptables in its older form. It speaks to the kernel over a raw
// socket, for which it needs CAP_NET_RAW; the newer form does not.
const iptablesProgram = "xtables-legacy-multi"

// iptablesNames has the names under which the program is called.
var iptablesNames = []string{"iptables", "ip6tables", "iptables-save"}

// iptablesPackages has the packages of the program and of the libraries that it is linked
// with.
var iptablesPackages = []string{"iptables", "libip4tc2", "libip6tc2", "libxtables12", "libc6"}

// iptablesFiles has folders in the guest, with the packages' files for them.
var iptablesFiles = map[string][]string{
	iptablesFolder: {"usr/sbin/" + iptablesProgram},
	"/lib64":       {"lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"},
	"/usr/lib/x86_64-linux-gnu": {
		"lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libip4tc.so.2",
		"usr/lib/x86_64-linux-gnu/libip6tc.so.2", "usr/lib/x86_64-linux-gnu/libxtables.so.12",
	},
	"/usr/lib/x86_64-linux-gnu/xtables": {"usr/lib/x86_64-linux-gnu/xtables/libxt_*.so"},
}

// collectIPTables downloads iptables and returns a folder of its files under their names in
// the guest.
func collectIPTables(ctx context.Context, root string, out io.Writer) (string, error) {
	kit := cluster.Kit{
		Suite: suite, Name: "iptables", Inputs: []string{filepath.Join(root, "test/vm/iptables.go")}, Make: makeIPTables,
	}
	return kit.Build(ctx, out)
}

func makeIPTables(ctx context.Context, into string) error {
	if err := apt(ctx, "update", "-q"); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(into), "unpacked-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := lab.Unpack(ctx, work, iptablesPackages...); err != nil {
		return fmt.Errorf("unpacking iptables: %w", err)
	}
	for folder, patterns := range iptablesFiles {
		folder = filepath.Join(into, folder)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for _, pattern := range patterns {
			if err := copyMatching(folder, filepath.Join(work, pattern)); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyMatching copies files under the names that match the pattern; libraries are links to
// files with longer names.
func copyMatching(folder, pattern string) error {
	found, err := filepath.Glob(pattern)
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("the packages have no file %s", pattern)
	}
	if err != nil {
		return err
	}
	for _, source := range found {
		if err := copyFile(filepath.Join(folder, filepath.Base(source)), source); err != nil {
			return err
		}
	}
	return nil
}
