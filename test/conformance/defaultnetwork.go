package conformance

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/libcni"
)

const (
	defaultInterface = "eth0"
	defaultBridge    = "conf0"
)

// defaultNetwork is the cluster's network: a bridge, with an address and a default route of
// each family, unless a case has another.
type defaultNetwork struct{ cni *libcni.CNIConfig }

const defaultConf = `{
	"cniVersion": "1.0.0",
	"name": "cluster-net",
	"plugins": [{
		"type": "bridge",
		"bridge": "` + defaultBridge + `",
		"isDefaultGateway": true,
		"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}], [{"subnet": "fd88::/64"}]]}
	}]
}`

func newDefaultNetwork() *defaultNetwork {
	return &defaultNetwork{libcni.NewCNIConfigWithCacheDir([]string{binDir}, runtimeCache, nil)}
}

// write writes the cluster's configuration to the directory in which a runtime, and nadra, look
// for it.
func (d *defaultNetwork) write(dir string) error {
	return os.WriteFile(filepath.Join(dir, "10-default.conflist"), []byte(defaultConf), 0o644)
}

func (d *defaultNetwork) runtimeConf(s sandbox) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: s.id, NetNS: s.netns, IfName: defaultInterface, Args: s.args(), CapabilityArgs: s.c.Runtime,
	}
}

// add attaches the sandbox to the default network, as a runtime does before it calls its
// NRI plugins.
func (d *defaultNetwork) add(ctx context.Context, s sandbox) error {
	list, err := libcni.NetworkConfFromBytes([]byte(s.c.defaultConf()))
	if err == nil {
		_, err = d.cni.AddNetworkList(ctx, list, d.runtimeConf(s))
	}
	if err != nil {
		return fmt.Errorf("adding the default network: %w", err)
	}
	return nil
}

func (d *defaultNetwork) del(ctx context.Context, s sandbox) error {
	list, err := libcni.NetworkConfFromBytes([]byte(s.c.defaultConf()))
	if err == nil {
		err = d.cni.DelNetworkList(ctx, list, d.runtimeConf(s))
	}
	if err != nil {
		return fmt.Errorf("deleting the default network: %w", err)
	}
	return nil
}

// defaultConf returns the configuration of the default network.
func (c Case) defaultConf() string { return cmp.Or(c.DefaultNetwork, defaultConf) }
