// Package lab installs nadra on a test cluster, and gives tests and the demo short ways to
// create networks and pods and to find what they leave behind.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	nadclient "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/test/cluster"
)

// DriverName is nadra's DRA driver.
const DriverName = "net.nadra.dev"

// Lab is a cluster with nadra on it.
type Lab struct {
	Cluster *cluster.Cluster
	Kube    kubernetes.Interface
	NADs    nadclient.Interface
}

// Root returns the top folder of the source tree.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Start builds what is missing, starts a cluster and installs nadra on it.
func Start(ctx context.Context, o cluster.Options, out io.Writer) (*Lab, error) {
	return StartImage(ctx, ImageArchive(), o, out)
}

// StartImage does the same as Start with another archive of nadra-node's image.
func StartImage(ctx context.Context, archive string, o cluster.Options, out io.Writer) (*Lab, error) {
	if _, err := os.Stat(archive); err != nil {
		return nil, fmt.Errorf("looking for nadra's image (run `make image`): %w", err)
	}
	if _, err := cluster.Build(ctx, out); err != nil {
		return nil, err
	}
	o.Out = out
	o.ImageArchives = append(o.ImageArchives, archive)
	if cluster.LayoutOf(o).PluginImage {
		o.ImageArchives = append(o.ImageArchives, Built("nadra-cni-plugins.tar"))
	}
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	l, err := New(c)
	if err == nil {
		err = l.Install(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return l, nil
}

// Refresh installs the present build of nadra on a running cluster.
func Refresh(ctx context.Context, c *cluster.Cluster) (*Lab, error) {
	l, err := New(c)
	if err != nil {
		return nil, err
	}
	for _, n := range c.Nodes() {
		if err := n.ImportImage(ctx, ImageArchive()); err != nil {
			return nil, err
		}
	}
	if err := l.Install(ctx); err != nil {
		return nil, err
	}
	// The image's name is the same, so only a restart uses the new one.
	if _, err := c.Kubectl(ctx, "-n", "nadra", "rollout", "restart", "daemonset/nadra-node"); err != nil {
		return nil, err
	}
	if _, err := c.Kubectl(ctx, "-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=60s"); err != nil {
		return nil, err
	}
	return l, alone(ctx, c)
}

// New returns a Lab for a running cluster.
func New(c *cluster.Cluster) (*Lab, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 200, 400
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	nads, err := nadclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Lab{Cluster: c, Kube: kube, NADs: nads}, nil
}

// Install applies the manifests as a user would and waits until the driver is ready on
// every node.
func (l *Lab) Install(ctx context.Context) error {
	if err := l.InstallCRD(ctx); err != nil {
		return err
	}
	if err := apply(ctx, l.Cluster, "base"); err != nil {
		return err
	}
	if err := l.WaitDriver(ctx); err != nil {
		return fmt.Errorf("waiting for nadra on the nodes: %w\n%s", err, l.DriverLog(ctx))
	}
	return nil
}

// InstallCRD installs the CRD of NetworkAttachmentDefinitions and waits until the API
// server serves it.
func (l *Lab) InstallCRD(ctx context.Context) error {
	if _, err := l.Cluster.Kubectl(ctx, "apply", "-k", filepath.Join(Root(), "manifests", "nad-crd")); err != nil {
		return fmt.Errorf("installing manifests/nad-crd: %w", err)
	}
	return WaitEstablished(ctx, l.Cluster, "network-attachment-definitions.k8s.cni.cncf.io")
}

// WaitEstablished waits until the API server serves the resources of CRDs, or of all CRDs with --all. kubectl wait fails, and
// does not wait, while a CRD has no conditions at all.
func WaitEstablished(ctx context.Context, c *cluster.Cluster, crds ...string) error {
	return Eventually(ctx, time.Minute, func(ctx context.Context) error {
		_, err := c.Kubectl(ctx, append([]string{"wait", "--for=condition=Established", "--timeout=10s", "crd"}, crds...)...)
		return err
	})
}

// WaitDriver waits until nadra's driver is ready on every node.
func (l *Lab) WaitDriver(ctx context.Context) error {
	return Eventually(ctx, 5*time.Minute, func(ctx context.Context) error {
		pods, err := l.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=nadra-node"})
		if err != nil {
			return err
		}
		nodes := map[string]bool{}
		for _, p := range pods.Items {
			if IsReady(&p) {
				nodes[p.Spec.NodeName] = true
			}
		}
		if want := len(l.Cluster.Nodes()) + len(l.Cluster.Guests()); len(nodes) != want {
			return fmt.Errorf("the driver is ready on %d of %d nodes", len(nodes), want)
		}
		return nil
	})
}

// DriverLog returns the end of the drivers' logs, for a person.
func (l *Lab) DriverLog(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	out, err := l.Cluster.Kubectl(ctx, "-n", "nadra", "logs", "-l", "app.kubernetes.io/name=nadra-node", "--tail=60", "--prefix")
	if err != nil {
		return err.Error()
	}
	return out
}

// Apply creates or changes objects given as YAML.
func (l *Lab) Apply(ctx context.Context, yaml string) error {
	_, err := l.Cluster.KubectlInput(ctx, yaml, "apply", "-f", "-")
	return err
}

// Delete deletes objects given as YAML and waits until they are gone.
func (l *Lab) Delete(ctx context.Context, yaml string) error {
	_, err := l.Cluster.KubectlInput(ctx, yaml, "delete", "--ignore-not-found", "--timeout=60s", "-f", "-")
	return err
}
