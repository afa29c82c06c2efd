package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/nadra-dev/nadra/internal/desk/report"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// input has the flags for the manifests or objects to read.
type input struct {
	app           *app
	files         manifestFiles
	allNamespaces bool
	selector      string
	withCluster   bool
	podTemplates  []string
	prefix        string
	pools         poolFlag
	deviceClasses map[string]string
	podInfo       bool
	machines      bool
	beside        bool
	quiet         bool
	// flags are the command's; nil for a part of another command.
	flags *pflag.FlagSet
	// args are TYPE/NAME arguments, which name objects of the live cluster.
	args []string
}

// input adds the flags to a command.
func (a *app) input(command *cobra.Command) *input {
	in := &input{app: a, flags: command.Flags()}
	flags := command.Flags()
	flags.StringSliceVarP(&in.files.Names, "filename", "f", nil, "file, directory or URL of manifests; - is standard input")
	flags.BoolVarP(&in.files.Recursive, "recursive", "R", false, "also read the subdirectories of -f")
	flags.StringVarP(&in.files.Kustomize, "kustomize", "k", "", "directory of a kustomization to build")
	flags.BoolVarP(&in.allNamespaces, "all-namespaces", "A", false, "read all namespaces of the live cluster")
	flags.StringVarP(&in.selector, "selector", "l", "", "read only workloads of the live cluster with these labels")
	flags.BoolVar(&in.withCluster, "with-cluster", false, "check the manifests of -f and -k against the networks of the live cluster")
	flags.StringSliceVar(&in.podTemplates, "pod-template", nil, "path of the pod template in a custom kind, as KIND.GROUP:PATH, for example Trainer.example.com:spec.workers.*.template")
	flags.StringVar(&in.prefix, "resource-prefix", "", "RESOURCE_PREFIX of sriov-network-operator, for the pools of its SriovNetworkNodePolicies (default openshift.io)")
	flags.Var(&in.pools, "pools", "names of resource pools that nadra's nodes will serve, in addition to those that manifests define or nodes of a live cluster publish; false does not convert workloads that draw from pools, like nadra-controller --pools=false")
	flags.StringToStringVar(&in.deviceClasses, "device-class", nil, "DeviceClass of another driver for the devices of a network or of a resource pool, as NAMESPACE/NETWORK=CLASS or RESOURCE=CLASS: claims request such a device and run the network on it")
	flags.BoolVar(&in.podInfo, "pod-info", true, "mount files with labels, annotations and huge pages at /etc/podnetinfo of pods that draw from a pool, like the network resources injector")
	flags.BoolVar(&in.machines, "virtual-machines", true, "nadra serves virtual machines of KubeVirt; false leaves them to Multus, like nadra-controller --virtual-machines=false")
	flags.BoolVar(&in.beside, "beside-multus", false, "for a cluster in which Multus stays on nadra's nodes: converted workloads name their networks in the annotation nadra.dev/networks (default what the flags of nadra in a live cluster say)")
	flags.BoolVarP(&in.quiet, "quiet", "q", false, "print only errors and blockers, and no progress")
	return in
}

// read reads the input that the flags select.
func (in *input) read(ctx context.Context) (*manifestSet, error) {
	templates, err := parseTemplates(in.podTemplates)
	if err != nil {
		return nil, err
	}
	set, err := in.readSource(ctx, templates)
	if err != nil {
		return nil, err
	}
	set.Options.Templates = templates
	set.Options.ResourcePrefix = in.prefix
	if err := in.readMode(ctx, set); err != nil {
		return nil, err
	}
	set.Options.Pools = !in.pools.off
	if set.Options.DeviceClasses, err = in.deviceClasses, checkDeviceClasses(in.deviceClasses); err != nil {
		return nil, err
	}
	if err := in.readPools(ctx, set, templates); err != nil {
		return nil, err
	}
	if err := in.readRanges(ctx, set, templates); err != nil {
		return nil, err
	}
	set.Options.NoPodInfo = !in.podInfo
	set.Options.NoVirtualMachines = !in.machines
	return set, addNeighbours(set)
}

// readPools finds out who serves the pools that networks draw from. The nodes of a live
// cluster show it.
func (in *input) readPools(ctx context.Context, set *manifestSet, templates []translate.TemplatePath) error {
	set.Options.PoolServer = in.pools.server(nil)
	live := set.Live || in.withCluster
	if !live || in.pools.off || !drawFromPools(slices.Concat(set.manifests(), set.Context)) {
		return nil
	}
	cluster, err := in.connect(templates)
	if err != nil {
		return err
	}
	sources, err := cluster.poolSources(ctx)
	if err != nil {
		return err
	}
	set.Context = append(set.Context, sources...)
	has, err := cluster.pools(ctx)
	if err != nil {
		return err
	}
	set.Options.PoolServer = in.pools.server(has)
	return nil
}

// readRanges reads addresses of a live cluster that routes of networks must not cover.
func (in *input) readRanges(ctx context.Context, set *manifestSet, templates []translate.TemplatePath) error {
	if !set.Live && !in.withCluster || !haveRoutes(slices.Concat(set.manifests(), set.Context)) {
		return nil
	}
	cluster, err := in.connect(templates)
	if err != nil {
		return err
	}
	set.Options.ClusterRanges, err = cluster.ranges(ctx)
	return err
}

// fromFiles reports whether the input is manifests.
func (in *input) fromFiles() bool { return len(in.files.Names) > 0 || in.files.Kustomize != "" }

// readSource reads manifests or the live cluster.
func (in *input) readSource(ctx context.Context, templates []translate.TemplatePath) (*manifestSet, error) {
	switch {
	case in.changed("filename") && len(in.files.Names) == 0:
		return nil, errors.New("-f is empty, perhaps an unset variable: name a file, a directory or a URL")
	case in.changed("kustomize") && in.files.Kustomize == "":
		return nil, errors.New("-k is empty, perhaps an unset variable: name the directory of a kustomization")
	case in.files.Recursive && len(in.files.Names) == 0:
		return nil, errors.New("-R reads the subdirectories of -f: name one with -f")
	case !in.fromFiles():
		return in.readCluster(ctx, templates)
	case len(in.args) > 0:
		return nil, fmt.Errorf("%s names an object of the live cluster: leave it out with -f and -k", in.args[0])
	case in.allNamespaces || in.selector != "":
		return nil, errors.New("-A and -l select workloads of the live cluster: leave them out with -f and -k")
	}
	in.files.Stdin = in.app.In
	in.files.LeaveOut = func(name, why string) {
		if !in.quiet {
			in.app.note("Not read: %s: %s", report.Visible(name), why)
		}
	}
	set, err := in.files.read(ctx)
	if err != nil {
		return nil, err
	}
	if in.withCluster {
		cluster, err := in.connect(templates)
		if err != nil {
			return nil, err
		}
		if set.Context, err = cluster.readContext(ctx); err != nil {
			return nil, err
		}
		set.Options.AllNetworks = true
	}
	set.Options.Namespace = *in.app.cluster.Namespace
	return set, nil
}

// readCluster reads the live cluster.
func (in *input) readCluster(ctx context.Context, templates []translate.TemplatePath) (*manifestSet, error) {
	if in.withCluster {
		return nil, errors.New("--with-cluster is for manifests: give some with -f or -k, or leave it out")
	}
	cluster, err := in.connect(templates)
	if err != nil {
		return nil, err
	}
	progress := newProgress(in.app.ErrOut, in.quiet)
	defer progress.stop()
	cluster.Progress = func(n int) { progress.say("Reading the cluster: %d objects", n) }
	if len(in.args) > 0 {
		return cluster.some(ctx, in.find)
	}
	return cluster.read(ctx)
}

// connect returns a source for the live cluster.
func (in *input) connect(templates []translate.TemplatePath) (clusterSource, error) {
	cluster, err := in.app.cluster.connect("give manifests with -f or -k, or a kubeconfig")
	c := clusterSource{Selector: in.selector, Templates: templates, Dynamic: cluster.Dynamic, Name: cluster.Name}
	if err != nil {
		return c, err
	}
	kinds, err := in.app.cluster.ToDiscoveryClient()
	if err != nil {
		return c, fmt.Errorf("connecting to the cluster: %w", err)
	}
	kinds.Invalidate() // kubectl keeps them for hours: networks would be missing if their CRD is newer
	c.Discovery = kinds
	c.Namespace, err = in.app.cluster.namespace(in.allNamespaces)
	return c, err
}

// find returns the objects that the arguments name, as kubectl get does.
func (in *input) find(namespace string) *resource.Result {
	return resource.NewBuilder(in.app.cluster).Unstructured().
		NamespaceParam(namespace).DefaultNamespace().AllNamespaces(in.allNamespaces).
		LabelSelectorParam(in.selector).ResourceTypeOrNameArgs(true, in.args...).
		ContinueOnError().Latest().Flatten().Do()
}

// parseTemplates parses KIND.GROUP:PATH.
func parseTemplates(flags []string) ([]translate.TemplatePath, error) {
	var out []translate.TemplatePath
	for _, flag := range flags {
		name, path, found := strings.Cut(flag, ":")
		if !found || name == "" || path == "" {
			return nil, fmt.Errorf("reading --pod-template %q: write KIND.GROUP:PATH, for example Trainer.example.com:spec.workers.*.template", flag)
		}
		kind := schema.ParseGroupKind(name)
		out = append(out, translate.TemplatePath{Group: kind.Group, Kind: kind.Kind, Path: strings.Split(path, ".")})
	}
	return out, nil
}
