package conformance

import (
	"context"
	"encoding/json"
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
// each family.
type defaultNetwork struct {
	conf []byte
	list *libcni.NetworkConfigList
	cni  *libcni.CNIConfig
}

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
	return &defaultNetwork{
		conf: []byte(defaultConf),
		cni:  libcni.NewCNIConfigWithCacheDir([]string{pluginsDir}, runtimeCache, nil),
	}
}

// write writes the configuration to the directory in which a runtime, and nadra, look for
// it.
func (d *defaultNetwork) write(dir string) (err error) {
	if d.list, err = libcni.NetworkConfFromBytes(d.conf); err != nil {
		return fmt.Errorf("reading the default network: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, "10-default.conflist"), d.conf, 0o644)
}

func (d *defaultNetwork) runtimeConf(s sandbox) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: s.id, NetNS: s.netns, IfName: defaultInterface, Args: s.args(), CapabilityArgs: s.c.Runtime,
	}
}

// add attaches the sandbox to the default network, as a runtime does before it calls its
// NRI plugins.
func (d *defaultNetwork) add(ctx context.Context, s sandbox) error {
	if _, err := d.cni.AddNetworkList(ctx, d.list, d.runtimeConf(s)); err != nil {
		return fmt.Errorf("adding the default network: %w", err)
	}
	return nil
}

func (d *defaultNetwork) del(ctx context.Context, s sandbox) error {
	if err := d.cni.DelNetworkList(ctx, d.list, d.runtimeConf(s)); err != nil {
		return fmt.Errorf("deleting the default network: %w", err)
	}
	return nil
}

// delegate returns the configuration as Multus' delegate.
func (d *defaultNetwork) delegate() json.RawMessage { return d.conf }
