//go:build e2e

// Package kubevirt proves that virtual machines of KubeVirt get their networks from nadra. The real
// virt-api and virt-controller run on a cluster of two nodes: they admit VirtualMachine objects, make launcher
// pods of them, edit the annotations of running launcher pods and migrate them. What they are installed with is
// what virt-operator would install.
//
// Three parts are stand-ins. The programs of launcher pods only keep them running, so there is no guest. Tests
// write what virt-handler would write about a guest (handler_test.go). Nodes have the labels and devices that
// virt-handler would give them. The package has only tests.
package kubevirt

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// master is the interface of each node that the macvlan networks have as master.
const master = "lan0"

var (
	theLab *lab.Lab
	// interrupted ends when a person stops the run.
	interrupted context.Context
	// handlers are the clients of the stand-in for virt-handler by node, with its identity.
	handlers = map[string]dynamic.Interface{}
	// user is a client of KubeVirt's API with all rights.
	user dynamic.Interface
	// runFolder is a temporary folder.
	runFolder string
	kubeVirt  cluster.KubeVirt
	// cases and passed count the cases.
	cases, passed atomic.Int32
)

func TestMain(m *testing.M) {
	lab.Suite{Name: "kubevirt", Start: start, Install: install, Tests: m.Run, Finally: func() {
		fmt.Printf("vm-launchers: cases=%d passed=%d\n", cases.Load(), passed.Load())
	}}.Main()
}

func start(ctx context.Context, dir string) (c *cluster.Cluster, err error) {
	interrupted, runFolder = ctx, dir
	// cluster.Build installs what building images needs.
	if _, err := cluster.Build(ctx, os.Stderr); err != nil {
		return nil, err
	}
	if kubeVirt, err = cluster.BuildKubeVirt(ctx, os.Stderr); err != nil {
		return nil, err
	}
	proxy, err := newFrontProxy(dir)
	if err != nil {
		return nil, err
	}
	theLab, err = lab.Start(ctx, cluster.Options{
		Dir: filepath.Join(dir, "cluster"), Nodes: 2, ImageArchives: []string{kubeVirt.Image}, APIServerArgs: proxy.args(),
		OnBoot: lab.LinkAtBoot(master),
	}, os.Stderr)
	if err != nil {
		return nil, err
	}
	return theLab.Cluster, nil
}

// install gives both nodes to nadra and installs KubeVirt.
func install(ctx context.Context, c *cluster.Cluster) error {
	if err := theLab.InstallController(ctx); err != nil {
		return err
	}
	if err := installKubeVirt(ctx, c); err != nil {
		return err
	}
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	if user, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		config := rest.CopyConfig(config)
		config.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:kubevirt:kubevirt-handler",
			Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {n.Name()}}, // as in the token of a pod
		}
		if handlers[n.Name()], err = dynamic.NewForConfig(config); err != nil {
			return err
		}
	}
	return nil
}
