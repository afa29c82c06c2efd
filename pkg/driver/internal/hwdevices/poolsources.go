package hwdevices

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/pools"
)

const (
	// poolsWait limits how long the start waits for the pools' definitions, so that the
	// slices of the driver before are not deleted and created again.
	poolsWait = 5 * time.Second
	// policiesRetry is the pause between looks for policies in a cluster that has none.
	policiesRetry = time.Minute
	// plainKey is the key in both device plugins' examples.
	plainKey = "config.json"
)

// PoolConfig is a ConfigMap with the configuration of a device plugin.
type PoolConfig struct {
	Namespace, Name string
	// Key is the configuration's key. If it is empty, the key is the node's name, as with
	// sriov-network-operator, or config.json if there is no such key.
	Key string
	// Prefix is the domain of resources that name none. If it is empty, it is the device
	// plugin's default, or Sources.OperatorPrefix for a key that is a node's name.
	Prefix string
	// Optional makes the absence of the ConfigMap no problem.
	Optional bool
}

func (c PoolConfig) String() string { return c.Namespace + "/" + c.Name }

// Sources has the places where resource pools are defined and hardware is read. The zero
// value has no pools. With pools, SysRoot and PodResources are required.
type Sources struct {
	// Configs are in order of precedence. They precede the policies.
	Configs []PoolConfig
	// PolicyNamespace has the SriovNetworkNodePolicies. If it is empty, none are read.
	PolicyNamespace string
	// OperatorPrefix is the domain of sriov-network-operator's resources.
	OperatorPrefix string
	// SysRoot is the host's sysfs in the driver's view.
	SysRoot string
	// PodResources is the kubelet's socket of that API in the driver's view.
	PodResources string
}

// None reports whether no source of pools is configured.
func (s Sources) None() bool { return len(s.Configs) == 0 && s.PolicyNamespace == "" }

// Clients are the clients that PoolSources needs. Dynamic may be nil without a
// PolicyNamespace.
type Clients struct {
	Kube     kubernetes.Interface
	Metadata metadata.Interface
	Dynamic  dynamic.Interface
}

// PoolSources watches the objects that define pools.
type PoolSources struct {
	Sources
	node    string
	clients Clients

	configs  []cache.SharedIndexInformer // as Sources.Configs
	policies cache.SharedIndexInformer   // nil without a namespace
	nodes    cache.SharedIndexInformer   // this Node, for the policies' selectors
}

// NewPoolSources returns a watch that has not started. It watches ConfigMaps by name, and no
// others.
func NewPoolSources(clients Clients, node string, sources Sources) *PoolSources {
	s := &PoolSources{Sources: sources, node: node, clients: clients}
	for _, c := range sources.Configs {
		s.configs = append(s.configs, coreinformers.NewFilteredConfigMapInformer(clients.Kube, c.Namespace, 0, cache.Indexers{}, byName(c.Name)))
	}
	if sources.PolicyNamespace != "" {
		s.policies = dynamicinformer.NewFilteredDynamicInformer(clients.Dynamic, pools.PolicyResource, sources.PolicyNamespace, 0, cache.Indexers{}, nil).Informer()
		nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
		s.nodes = metadatainformer.NewFilteredMetadataInformer(clients.Metadata, nodes, metav1.NamespaceAll, 0, cache.Indexers{}, byName(node)).Informer()
	}
	return s
}

func (s *PoolSources) informers() []cache.SharedIndexInformer {
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

// Start watches until ctx ends, and calls changed after every change. It returns when the
// definitions were read, or after poolsWait: an object that the driver may not read does not
// stop the driver.
func (s *PoolSources) Start(ctx context.Context, start func(func() error), changed func()) error {
	for _, informer := range s.informers() {
		if _, err := informer.AddEventHandler(background.OnChange(changed)); err != nil {
			return fmt.Errorf("watching the definitions of resource pools: %w", err)
		}
	}
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
		start(func() error {
			// The informer's handler was called before List could know that all objects were read.
			if background.Await(ctx, informer.HasSyncedChecker().Done()) {
				changed()
			}
			return nil
		})
	}
	for i, informer := range s.configs {
		if !cache.WaitForCacheSync(limited.Done(), informer.HasSynced) && ctx.Err() == nil {
			klog.FromContext(ctx).Error(nil, "The ConfigMap of resource pools could not be read yet: check that the driver may get, list and watch it",
				"configMap", s.Configs[i].String(), "timeout", poolsWait)
		}
	}
	return nil
}

// runPolicies watches policies once the cluster has them.
func (s *PoolSources) runPolicies(ctx context.Context) {
	for {
		_, err := s.clients.Kube.Discovery().ServerResourcesForGroupVersion(pools.PolicyResource.GroupVersion().String())
		switch {
		case err == nil:
			s.policies.RunWithContext(ctx)
			return
		case !apierrors.IsNotFound(err):
			klog.FromContext(ctx).Error(err, "Asking whether the cluster has SriovNetworkNodePolicies failed; trying again", "retryAfter", policiesRetry)
		}
		if !background.Sleep(ctx, policiesRetry) {
			return
		}
	}
}

// List returns the pools that are defined for this node now, and an error for each
// definition that is wrong.
func (s *PoolSources) List() ([]pools.Pool, []error) {
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

func (s *PoolSources) fromConfig(c PoolConfig, store cache.Store) ([]pools.Pool, error) {
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
	default: // the operator's ConfigMap, which has no key for this node
		return nil, nil
	}
	options := pools.Options{SRIOVPrefix: c.Prefix}
	if options.SRIOVPrefix == "" && key == s.node {
		options.SRIOVPrefix = s.OperatorPrefix
	}
	return pools.ParseConfig(source, []byte(text), options)
}

// configText returns the configuration in a ConfigMap, and its key.
func (s *PoolSources) configText(c PoolConfig, data map[string]string) (key, text string, ok bool) {
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

func (s *PoolSources) fromPolicies() ([]pools.Pool, []error) {
	obj, ok, err := s.nodes.GetStore().GetByKey(s.node)
	if err != nil || !ok {
		return nil, []error{reason.Errorf(reason.PoolMissing, "the labels of Node %s, which select its SriovNetworkNodePolicies, are not known: does the Node exist?", s.node)}
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
	return pools.FromPolicies(policies, obj.(*metav1.PartialObjectMetadata).Labels), problems
}
