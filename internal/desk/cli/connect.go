package cli

import (
	"context"
	"fmt"
	"strings"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/desk/inspect"
)

// clusterFlags are the flags that select the cluster.
type clusterFlags struct{ *genericclioptions.ConfigFlags }

// giveKubeconfig is the remedy of commands that need a cluster.
const giveKubeconfig = "give a kubeconfig by --kubeconfig or KUBECONFIG"

// config returns the configuration of clients for the cluster of the flags. remedy says what to give without one.
func (f *clusterFlags) config(remedy string) (*rest.Config, error) {
	config, err := f.ToRESTConfig()
	switch {
	case clientcmd.IsEmptyConfig(err), err == nil && f.guessed(config):
		return nil, fmt.Errorf("finding the cluster: no kubeconfig names one: %s", remedy)
	case err != nil:
		return nil, fmt.Errorf("finding the cluster: %w: %s", err, remedy)
	}
	config.QPS, config.Burst = 50, 100 // the default limit is for controllers
	return config, nil
}

// guessed reports whether the address is the one that kubectl's libraries take if nothing names a cluster.
func (f *clusterFlags) guessed(config *rest.Config) bool {
	raw, err := f.ToRawKubeConfigLoader().RawConfig()
	return err == nil && len(raw.Clusters) == 0 && *f.APIServer == "" && strings.HasSuffix(config.Host, "localhost:8080")
}

// contextName returns the name of the cluster's context, for people.
func (f *clusterFlags) contextName() string {
	if name := f.Context; name != nil && *name != "" {
		return *name
	}
	raw, err := f.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return ""
	}
	return raw.CurrentContext
}

// connect returns clients for the cluster of the flags.
func (f *clusterFlags) connect(remedy string) (doctor.Cluster, error) {
	c := doctor.Cluster{Name: f.contextName()}
	config, err := f.config(remedy)
	if err != nil {
		return c, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err == nil {
		c.NADs, err = nadclient.NewForConfig(config)
	}
	if err == nil {
		c.Dynamic, err = dynamic.NewForConfig(config)
	}
	if err != nil {
		return c, fmt.Errorf("connecting to the cluster: %w", err)
	}
	c.Kube, c.Raw = kube, rawOf(kube)
	return c, nil
}

// rawOf returns a function that gets a path of the API server.
func rawOf(kube kubernetes.Interface) func(ctx context.Context, path string) ([]byte, error) {
	return func(ctx context.Context, path string) ([]byte, error) {
		return kube.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	}
}

// connect returns clients for the cluster of the flags.
func (a *app) connect() (doctor.Cluster, error) { return a.cluster.connect(giveKubeconfig) }

// live returns clients for the cluster and namespace of the flags.
func (f *clusterFlags) live() (inspect.Cluster, error) {
	clients, err := f.connect(giveKubeconfig)
	if err != nil {
		return inspect.Cluster{}, err
	}
	c := inspect.Cluster{Kube: clients.Kube, NADs: clients.NADs}
	c.Namespace, err = f.namespace(false)
	return c, err
}

// namespace returns the namespace of the flags or of the context, or an empty one for all.
func (f *clusterFlags) namespace(all bool) (string, error) {
	if all {
		return "", nil
	}
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("finding the namespace: %w", err)
	}
	return namespace, nil
}
