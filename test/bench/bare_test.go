package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// bareDriver is test/otherdriver, which does nothing here. Its claims show what claims cost by
// themselves.
const bareDriver = "bare.nadra.dev"

// startBare runs the bare driver on its node, with a device for each network of a pod. It runs the plugins of the networks
// for pods of the floor only.
func (t *trio) startBare(b *testing.B) {
	b.Helper()
	program, err := cluster.Program{
		Suite: "bench", Name: "otherdriver", Package: "./test/otherdriver", Sources: []string{"test/otherdriver/*.go"},
	}.Build(b.Context(), os.Stderr)
	must(b, err)
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: bareDriver}}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", bareDriver)}}}
	_, err = t.Kube.ResourceV1().DeviceClasses().Create(b.Context(), class, metav1.CreateOptions{})
	must(b, err)

	node := t.Cluster.Node(bareNode)
	networks := b.TempDir()
	write := func(name, config string) {
		must(b, os.WriteFile(filepath.Join(networks, name+".conflist"), []byte(config), 0o600))
	}
	args := []string{"-shared", "-attach", networks, t.Cluster.Kubeconfig(), node.Name(), bareDriver}
	for i := range starterNetworks {
		write(networkNo(i), fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"plugins":[{%s}]}`, networkNo(i), starterPlugin(i)))
		args = append(args, networkNo(i)+",name="+networkNo(i))
	}
	write(stamped, stampedConfig(stamped))
	// The cluster's end ends the driver.
	cmd := node.Command(context.WithoutCancel(b.Context()), program, args...)
	cmd.Stderr = os.Stderr
	go func() {
		if err := node.Run(cmd); err != nil && !errors.As(err, new(*exec.ExitError)) {
			fmt.Fprintln(os.Stderr, "running the bare DRA driver:", err)
		}
	}()
	must(b, lab.Eventually(b.Context(), podTime, func(ctx context.Context) error {
		slices, err := t.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + bareDriver})
		if err == nil && len(slices.Items) == 0 {
			err = errors.New("the bare DRA driver has not published its devices")
		}
		return err
	}))
}

// bareTemplateName returns the name of the template with that many of the bare driver's devices.
func bareTemplateName(networks int) string { return fmt.Sprintf("bare-%d", networks) }
