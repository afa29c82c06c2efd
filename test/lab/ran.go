package lab

import (
	"context"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/support"
)

// PrintRan prints what a cluster reports to run, for build/record: lines such as
// "ran containerd 2.4.2", with the names of package support.
func PrintRan(ctx context.Context, c *cluster.Cluster) error {
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	server, err := kube.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("reading the version of the API server: %w", err)
	}
	list, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reading the versions of the nodes: %w", err)
	}
	printVersion(support.Kubernetes, server.GitVersion)
	if server.EmulationMinor != "" && server.EmulationMinor != server.Minor {
		fmt.Println("ran", support.Emulated, server.EmulationMajor+"."+server.EmulationMinor)
	}
	for _, n := range list.Items {
		info := n.Status.NodeInfo
		if info.KubeletVersion != server.GitVersion {
			printVersion(support.Kubelet, info.KubeletVersion)
		}
		runtime, runtimeVersion, _ := strings.Cut(info.ContainerRuntimeVersion, "://")
		printVersion(support.OfRuntime(runtime), runtimeVersion)
		printVersion(support.Linux, info.KernelVersion)
		fmt.Println("ran", info.Architecture)
	}
	switch {
	case c.Families() == "ipv6":
		fmt.Println("ran", support.IPv6)
	case c.Families() == "dual":
		fmt.Println("ran", support.DualStack)
	}
	if c.Layout().ReadOnlyRoot {
		fmt.Println("ran", support.ReadOnlyRoot)
	}
	if len(c.Nodes()) == 0 { // the nodes are not machines of the cluster, which have this one's control groups
		return nil
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		fmt.Println("ran", support.CgroupV2)
	} else {
		fmt.Println("ran", support.CgroupV1)
	}
	return nil
}

// printVersion prints a version without what distributions append to it.
func printVersion(component support.Component, text string) {
	if v, err := version.ParseGeneric(text); err == nil {
		text = v.String()
	}
	fmt.Println("ran", component, text)
}
