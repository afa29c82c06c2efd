package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// RESTConfig returns the administrator's access to the API, usable from
// outside of the cluster's network: connections are opened inside of it.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.Dial = c.controlPlane.Dial
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	return config, nil
}

// Kubeconfig returns the path of the administrator's kubeconfig. Its address
// is valid inside the machines of the cluster.
func (c *Cluster) Kubeconfig() string { return c.secrets.kubeconfig("admin") }

// Kubectl runs kubectl as the administrator and returns what it prints.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	output, err := c.controlPlane.Exec(ctx, "kubectl", args...)
	return string(output), err
}

// KubectlInput runs kubectl with something to read, as in "apply -f -".
func (c *Cluster) KubectlInput(ctx context.Context, input string, args ...string) (string, error) {
	cmd := c.controlPlane.Command(ctx, "kubectl", args...)
	cmd.Stdin = bytes.NewReader([]byte(input))
	output, err := c.controlPlane.output(cmd)
	return string(output), err
}

// httpClient returns a client for the package's own few requests.
func (c *Cluster) httpClient() (*http.Client, error) {
	c.clientOnce.Do(func() {
		var config *rest.Config
		if config, c.clientErr = c.RESTConfig(); c.clientErr == nil {
			config.Timeout = 5 * time.Second
			c.client, c.clientErr = rest.HTTPClientFor(config)
		}
	})
	return c.client, c.clientErr
}

// get reads one object from the API; with a nil object only success counts.
func (c *Cluster) get(ctx context.Context, path string, into any) error {
	client, err := c.httpClient()
	if err != nil {
		return err
	}
	return get(ctx, client, c.options.families().server()+path, into)
}

// get reads a JSON object by HTTP; with a nil object only success counts.
func get(ctx context.Context, client *http.Client, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("reading %s: %s: %.200s", url, response.Status, content)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(content, into)
}

// nodeStatus has the fields of a Node object that this package reads.
type nodeStatus struct {
	Spec struct {
		Taints []struct{ Key string }
	}
	Status struct {
		NodeInfo   struct{ BootID string }
		Conditions []struct{ Type, Status string }
	}
}

// usable reports whether pods can run on the node in its present boot, with an error that
// says why not.
func (s nodeStatus) usable(bootID string) (bool, error) {
	if s.Status.NodeInfo.BootID != bootID {
		return false, fmt.Errorf("kubelet has not reported since the boot")
	}
	for _, taint := range s.Spec.Taints { // other taints, and a cordon, are a person's
		if strings.HasPrefix(taint.Key, "node.kubernetes.io/") && taint.Key != "node.kubernetes.io/unschedulable" {
			return false, fmt.Errorf("it has the taint %s", taint.Key)
		}
	}
	for _, condition := range s.Status.Conditions {
		if condition.Type == "Ready" && condition.Status == "True" {
			return true, nil
		}
	}
	return false, fmt.Errorf("kubelet reports that it is not ready")
}
