package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/controller"
	"github.com/nadra-dev/nadra/internal/version"
	"github.com/nadra-dev/nadra/internal/webhook"
	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

type options struct {
	controller.Options
	webhook webhook.Options

	kubeconfig, namespace, certDir    string
	globalNamespaces                  string
	defaultNetworks, systemNamespaces string
	port                              int
	metrics, health                   string
	podInfo, machines                 bool
	claims                            string
	callers, clientCA, clientNames    string
}

// common adds the flags of all commands.
func common(fs *flag.FlagSet, o *options) {
	klog.InitFlags(fs)
	fs.Bool("version", false, version.Usage) // command looks for it; here it is for -h
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; empty in a pod")
	fs.StringVar(&o.namespace, "namespace", "nadra-system", "the controller's own namespace")
}

// flags returns the controller's flags, which set the options.
func (o *options) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("nadra-controller", flag.ContinueOnError)
	common(fs, o)
	fs.StringVar(&o.webhook.DefaultOwner, "default-owner", v1alpha1.OwnerMultus, "owner of pods without a label nadra.dev/owner on the pod and its namespace: multus or nadra")
	fs.BoolVar(&o.webhook.BesideMultus, "beside-multus", false, "Multus stays on nadra's nodes: no label of a node decides who serves a pod, and pods that nadra serves name their networks in the annotation nadra.dev/networks; nadra-node needs the same flag")
	fs.BoolVar(&o.webhook.Isolation.On, "namespace-isolation", false, "refuse networks of other namespaces, except those of --global-namespaces; the same as for nadra-node")
	fs.StringVar(&o.globalNamespaces, "global-namespaces", "default", "comma-separated namespaces whose networks all pods may use; the same as for nadra-node")
	fs.StringVar(&o.defaultNetworks, "default-networks", "", "comma-separated networks, each as namespace/name, that pods get before the networks of their annotation: in all namespaces except --system-namespaces and those with a label nadra.dev/default-networks of their own; needs the webhook of manifests/components/default-networks")
	fs.StringVar(&o.systemNamespaces, "system-namespaces", "kube-system,nadra", "comma-separated namespaces whose pods get no default networks; the controller's own is always one")
	fs.StringVar(&o.DriverNamespace, "driver-namespace", "nadra", "namespace of nadra-node's DaemonSet: no pods of other namespaces count as drivers of their nodes")
	fs.BoolVar(&o.Pools, "pools", true, "serve resource pools, for example of VFs: create classes for them and convert pods that need them; false leaves such pods to device plugins, and is the default with --beside-multus")
	fs.BoolVar(&o.podInfo, "pod-info", true, "mount files with labels, annotations and huge pages at /etc/podnetinfo of pods that draw from a pool, like the network resources injector")
	fs.BoolVar(&o.machines, "virtual-machines", true, "convert launcher pods of KubeVirt as any pod; false leaves them to Multus, as --beside-multus always does")
	fs.StringVar(&o.claims, "claims", v1alpha1.ClaimsAlways, "whether pods get claims for their networks, in namespaces without a label "+v1alpha1.ClaimsLabel+" of their own: always, or never, for schedulers and autoscalers that do not know claims; nadra-node then attaches the networks by the annotation, and needs --unclaimed=attach")
	fs.DurationVar(&o.TemplateGrace, "template-grace", 10*time.Minute, "time after which a ResourceClaimTemplate of the webhook is deleted if no pod refers to it")
	fs.StringVar(&o.certDir, "cert-dir", "/etc/nadra-webhook-tls", "folder with the webhooks' certificate, tls.crt, and its key, tls.key; a new certificate needs no restart")
	fs.IntVar(&o.port, "port", 9443, "port of the webhooks")
	fs.StringVar(&o.callers, "webhook-callers", "kube-system", "comma-separated namespaces whose pods may call the webhooks, as agents that connect the API server with pods do; other pods are refused, unless they are on the host's network; * admits all callers")
	fs.StringVar(&o.clientCA, "webhook-client-ca", "", "file with the authorities of client certificates, of which callers of the webhooks must have one; then --webhook-callers has no effect")
	fs.StringVar(&o.clientNames, "webhook-client-name", "kube-apiserver", "comma-separated names, of which a client certificate must have one as its common name or DNS name; with --webhook-client-ca")
	fs.StringVar(&o.metrics, "metrics", ":8080", "address of the metrics; 0 serves none")
	fs.StringVar(&o.health, "health", ":8081", "address of /healthz and /readyz; 0 serves none")
	return fs
}

// parse parses the flags and rejects invalid values.
func parse(args []string) (options, error) {
	var o options
	fs := o.flags()
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if err := o.setBesideMultus(fs); err != nil {
		return o, err
	}
	o.webhook.Pools, o.webhook.NoPodInfo = o.Pools, !o.podInfo
	o.webhook.NoVirtualMachines, o.webhook.NeverClaims = !o.machines, o.claims == v1alpha1.ClaimsNever
	o.BesideMultus = o.webhook.BesideMultus
	o.setCallers()
	o.webhook.Isolation.Global = names(o.globalNamespaces)
	if err := o.setDefaultNetworks(); err != nil {
		return o, err
	}
	return o, o.check(fs.Args())
}

// setBesideMultus leaves the pools to device plugins beside Multus, unless --pools is given. It rejects
// virtual machines, because KubeVirt reads Multus' annotation.
func (o *options) setBesideMultus(fs *flag.FlagSet) error {
	if !o.webhook.BesideMultus {
		return nil
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if given["virtual-machines"] && o.machines {
		return errors.New("--virtual-machines and --beside-multus contradict each other: KubeVirt reads the annotation of Multus, which pods of nadra do not have there; leave out --virtual-machines")
	}
	o.Pools = o.Pools && given["pools"]
	return nil
}

// setCallers sets who may call the webhooks.
func (o *options) setCallers() {
	o.webhook.Callers, o.webhook.PodIP = names(o.callers), os.Getenv("POD_IP")
	o.webhook.HostIP, o.webhook.ServiceIP = os.Getenv("HOST_IP"), os.Getenv("KUBERNETES_SERVICE_HOST")
	if o.clientCA != "" {
		o.webhook.ClientNames = names(o.clientNames)
	}
}

// names returns the names in a list.
func names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// setDefaultNetworks sets the options for default networks. It rejects a network that namespace
// isolation forbids, because the webhook would refuse nearly all pods.
func (o *options) setDefaultNetworks() error {
	o.webhook.SystemNamespaces = append(names(o.systemNamespaces), o.namespace)
	networks, err := admission.ParseDefaultNetworks(names(o.defaultNetworks))
	if err != nil {
		return fmt.Errorf("--default-networks is %q: %w: write namespace/name", o.defaultNetworks, err)
	}
	for _, n := range networks {
		if o.webhook.Isolation.On && !slices.Contains(o.webhook.Isolation.Global, n.Namespace) {
			return fmt.Errorf("--default-networks names %s, and --namespace-isolation forbids it to pods of other namespaces: add %s to --global-namespaces, also of nadra-node", n, n.Namespace)
		}
	}
	o.webhook.DefaultNetworks = networks
	return nil
}

// check rejects unknown commands and invalid values.
func (o options) check(rest []string) error {
	switch owner := o.webhook.DefaultOwner; {
	case len(rest) > 0:
		return fmt.Errorf("%q is not a command of nadra-controller: use certificates or uninstall, or only flags to run the controller", rest[0])
	case owner != v1alpha1.OwnerMultus && owner != v1alpha1.OwnerNadra:
		return fmt.Errorf("--default-owner is %q: it must be %s or %s", owner, v1alpha1.OwnerMultus, v1alpha1.OwnerNadra)
	case o.claims != v1alpha1.ClaimsAlways && o.claims != v1alpha1.ClaimsNever:
		return fmt.Errorf("--claims is %q: it must be %s or %s", o.claims, v1alpha1.ClaimsAlways, v1alpha1.ClaimsNever)
	case o.clientCA != "" && len(o.webhook.ClientNames) == 0:
		return errors.New("--webhook-client-name is empty: with --webhook-client-ca, name the client certificates of the API servers")
	case o.TemplateGrace <= 0:
		return fmt.Errorf("--template-grace is %s: it must be more than zero", o.TemplateGrace)
	case o.namespace == "" || o.certDir == "":
		return errors.New("--namespace and --cert-dir must have a value")
	}
	return nil
}

// config returns the client configuration, without a rate limit: a pod that waits for
// admission must not queue behind 10,000 classes, and the API server has its own fairness.
func (o options) config() (*rest.Config, error) {
	config, err := o.access()
	if err != nil {
		return nil, fmt.Errorf("reading the API server's address: %w", err)
	}
	config.UserAgent = controller.Name
	config.QPS = -1
	return config, nil
}

// access returns the configuration of the kubeconfig file, or that of the pod.
func (o options) access() (*rest.Config, error) {
	if o.kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", o.kubeconfig)
}
