package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic/dynamicinformer"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/pools"
)

const (
	// poolsWait bounds how long the start waits for the pools' definitions, so
	// that the slices of the driver before are not deleted and made anew.
	poolsWait = 5 * time.Second
	// policiesRetry is how often a cluster is asked for policies that has none.
	policiesRetry = time.Minute
	// plainKey is that of both device plugins' examples.
	plainKey = "config.json"
)

// PoolConfig is a ConfigMap with the configuration of a device plugin.
type PoolConfig struct {
	Namespace, Name string
	// Key is that of the configuration. If empty, it is the node's name if there
	// is such a key, as sriov-network-operator has it, and otherwise config.json.
	Key string
	// Prefix is the domain of resources that name none; the device plugin's
	// default, or of a key that is a node's name Hardware.OperatorPrefix.
	Prefix string
	// Optional says that nobody asked for it: its absence is no problem.
	Optional bool
}

func (c PoolConfig) String() string { return c.Namespace + "/" + c.Name }

// Hardware says where resource pools are defined and hardware is seen. The zero
// value has no pools; with any, SysRoot and PodResources are required.
type Hardware struct {
	// Configs are in order of precedence, and before the policies.
	Configs []PoolConfig
	// PolicyNamespace has the SriovNetworkNodePolicies; none are read if empty.
	PolicyNamespace string
	// OperatorPrefix is the domain of sriov-network-operator's resources.
	OperatorPrefix string
	// SysRoot is the host's sysfs in the driver's view.
	SysRoot string
	// PodResources is the kubelet's socket of that API in the driver's view.
	PodResources string
}

// none says that no source of pools is configured.
func (h Hardware) none() bool { return len(h.Configs) == 0 && h.PolicyNamespace == "" }

// poolSources watches the objects that define pools.
type poolSources struct {
	Hardware
	node    string
	clients Clients
	changed func()

	configs  []cache.SharedIndexInformer // as Configs
	policies cache.SharedIndexInformer   // nil without a namespace
	nodes    cache.SharedIndexInformer   // this Node, for the policies' selectors
}

// newPoolSources prepares a watch of the ConfigMaps by name, and of no others.
func newPoolSources(clients Clients, node string, h Hardware, changed func()) (*poolSources, error) {
	s := &poolSources{Hardware: h, node: node, clients: clients, changed: changed}
	for _, c := range h.Configs {
		s.configs = append(s.configs, coreinformers.NewFilteredConfigMapInformer(clients.Kube, c.Namespace, 0, cache.Indexers{}, byName(c.Name)))
	}
	if h.PolicyNamespace != "" {
		s.policies = dynamicinformer.NewFilteredDynamicInformer(clients.Dynamic, pools.PolicyResource, h.PolicyNamespace, 0, cache.Indexers{}, nil).Informer()
		s.nodes = metadatainformer.NewFilteredMetadataInformer(clients.Metadata, nodeResource, metav1.NamespaceAll, 0, cache.Indexers{}, byName(node)).Informer()
	}
	for _, informer := range s.informers() {
		poke := func(any) { changed() }
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: poke, UpdateFunc: func(_, n any) { poke(n) }, DeleteFunc: poke,
		}); err != nil {
			return nil, fmt.Errorf("watching the definitions of resource pools: %w", err)
		}
	}
	return s, nil
}

func (s *poolSources) informers() []cache.SharedIndexInformer {
	if s.policies == nil {
		return s.configs
	}
	return append(slices.Clone(s.configs), s.policies, s.nodes)
}

func byName(name string) func(*metav1.ListOptions) {
	return func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}

// begin watches until ctx ends, and returns when what there is has been read, or
// has waited for long enough: one that may not be read holds nobody up.
func (s *poolSources) begin(ctx context.Context, start func(func() error)) {
	limited, cancel := context.WithTimeout(ctx, poolsWait)
	defer cancel()
	for _, informer := range s.configs {
		start(func() error { informer.RunWithContext(ctx); return nil })
	}
	if s.policies != nil {
		start(func() error { s.nodes.RunWithContext(ctx); return nil })
		start(func() error { s.runPolicies(ctx); return nil })
	}
	for _, informer := range s.informers() {
		start(func() error { s.tellRead(ctx, informer); return nil })
	}
	for i, informer := range s.configs {
		if !cache.WaitForCacheSync(limited.Done(), informer.HasSynced) && ctx.Err() == nil {
			klog.FromContext(ctx).Error(nil, "The ConfigMap of resource pools could not be read yet: may the driver get, list and watch it?",
				"configMap", s.Configs[i].String(), "waited", poolsWait)
		}
	}
}

// tellRead tells once that an informer has read what there is. Its handler was
// called before list could know that.
func (s *poolSources) tellRead(ctx context.Context, informer cache.SharedIndexInformer) {
	select {
	case <-informer.HasSyncedChecker().Done():
		s.changed()
	case <-ctx.Done():
	}
}

// runPolicies watches policies once the cluster has them.
func (s *poolSources) runPolicies(ctx context.Context) {
	for {
		_, err := s.clients.Kube.Discovery().ServerResourcesForGroupVersion(pools.PolicyResource.GroupVersion().String())
		switch {
		case err == nil:
			s.policies.RunWithContext(ctx)
			return
		case !apierrors.IsNotFound(err):
			klog.FromContext(ctx).Error(err, "Asking whether the cluster has SriovNetworkNodePolicies failed", "again", policiesRetry)
		}
		if !sleep(ctx, policiesRetry) {
			return
		}
	}
}

// list returns the pools that are defined for this node now, and what is wrong
// with others.
func (s *poolSources) list() ([]pools.Pool, []error) {
	var out []pools.Pool
	var problems []error
	for i, c := range s.Configs {
		if !s.configs[i].HasSynced() {
			continue
		}
		found, err := s.fromConfig(c, s.configs[i].GetStore())
		out, problems = append(out, found...), append(problems, flatten(err)...)
	}
	if s.policies != nil && s.policies.HasSynced() && s.nodes.HasSynced() {
		found, errs := s.fromPolicies()
		out, problems = append(out, found...), append(problems, errs...)
	}
	out, err := pools.Unique(out)
	return out, append(problems, flatten(err)...)
}

func (s *poolSources) fromConfig(c PoolConfig, store cache.Store) ([]pools.Pool, error) {
	obj, ok, err := store.GetByKey(c.String())
	if err != nil || !ok {
		if c.Optional {
			return nil, err
		}
		return nil, reason.Errorf(reason.PoolMissing, "ConfigMap %s of --pool-config does not exist: create it, or correct the flag", c)
	}
	key, text, ok := s.configText(c, obj.(*corev1.ConfigMap).Data)
	source := pools.Source{Object: "ConfigMap " + c.String(), Field: "data[" + key + "]"}
	switch {
	case ok:
	case c.Key != "":
		return nil, reason.Errorf(reason.PoolMissing, "%s of --pool-config does not exist: add the key, or correct the flag", source)
	default: // the operator's map, which has nothing for this node
		return nil, nil
	}
	options := pools.Options{SRIOVPrefix: c.Prefix}
	if options.SRIOVPrefix == "" && key == s.node {
		options.SRIOVPrefix = s.OperatorPrefix
	}
	return pools.ParseConfig(source, []byte(text), options)
}

// configText is the configuration in a ConfigMap and its key.
func (s *poolSources) configText(c PoolConfig, data map[string]string) (key, text string, ok bool) {
	keys := []string{s.node, plainKey}
	if c.Key != "" {
		keys = []string{c.Key}
	}
	for _, key = range keys {
		if text, ok = data[key]; ok {
			return key, text, true
		}
	}
	return key, "", false
}

func (s *poolSources) fromPolicies() ([]pools.Pool, []error) {
	obj, ok, err := s.nodes.GetStore().GetByKey(s.node)
	if err != nil || !ok {
		return nil, []error{reason.Errorf(reason.PoolMissing, "the labels of Node %s, which say which SriovNetworkNodePolicies are for it, are not known: does the Node exist?", s.node)}
	}
	var policies []pools.Policy
	var problems []error
	for _, obj := range s.policies.GetStore().List() {
		raw, err := json.Marshal(obj.(*unstructured.Unstructured).Object)
		if err != nil {
			problems = append(problems, reason.Errorf(reason.PoolMissing, "reading a SriovNetworkNodePolicy: %w", err))
			continue
		}
		p, ok, err := pools.ParsePolicy(raw, s.OperatorPrefix)
		if ok {
			policies = append(policies, p)
		}
		problems = append(problems, flatten(err)...)
	}
	return pools.FromPolicies(policies, metaOf(obj).Labels), problems
}
