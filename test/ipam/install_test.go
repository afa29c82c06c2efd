//go:build e2e

package ipam

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// eachMinute is the reconciler's schedule here. The module's own is once a day,
// which no run would see.
const eachMinute = "* * * * *"

// installWhereabouts applies the CRDs and the DaemonSet of whereabouts' module
// and waits until both nodes have the plugin and its kubeconfig.
func installWhereabouts(ctx context.Context) error {
	manifest, err := whereabouts.Manifest(func(o *unstructured.Unstructured) (bool, error) { return true, adapt(o) })
	if err != nil {
		return fmt.Errorf("reading whereabouts' manifests: %w", err)
	}
	if err := theLab.Apply(ctx, manifest); err != nil {
		return fmt.Errorf("installing whereabouts: %w", err)
	}
	if err := letGetPods(ctx); err != nil {
		return err
	}
	for _, n := range theLab.Cluster.Nodes() {
		if err := hasWhereabouts(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func hasWhereabouts(ctx context.Context, n *cluster.Node) error {
	return lab.Eventually(ctx, 2*time.Minute, func(context.Context) error {
		for _, path := range []string{"/etc/cni/net.d/whereabouts.d/whereabouts.conf", "/opt/cni/bin/whereabouts"} {
			outside, err := n.HostPath(path)
			if err != nil {
				return err
			}
			if _, err := os.Stat(outside); err != nil {
				return fmt.Errorf("whereabouts is not installed on %s: %w", n.Name(), err)
			}
		}
		return nil
	})
}

// adapt changes the image, which no registry has here, the reconciler's
// schedule, and the limit of a tenth of a CPU, which slows the start. All else is
// the module's.
func adapt(o *unstructured.Unstructured) error {
	switch o.GetKind() {
	case "ConfigMap":
		return unstructured.SetNestedField(o.Object, eachMinute, "data", "cron-expression")
	case "DaemonSet":
		path := []string{"spec", "template", "spec", "containers"}
		containers, found, err := unstructured.NestedSlice(o.Object, path...)
		if err != nil || !found || len(containers) != 1 {
			return fmt.Errorf("it has %d containers, want 1: %w", len(containers), err)
		}
		c := containers[0].(map[string]any)
		c["image"], c["imagePullPolicy"] = cluster.WhereaboutsImage, "Never"
		unstructured.RemoveNestedField(c, "resources", "limits", "cpu")
		return unstructured.SetNestedSlice(o.Object, containers, path...)
	}
	return nil
}

// getPods finds the command of the page on IPAM that lets the reconciler get pods.
var getPods = regexp.MustCompile("(?s)```sh\n *(kubectl patch clusterrole .*?)```")

// letGetPods gives the reconciler the right to get pods, which the manifest of v0.8.0
// lacks. Without it the reconciler cannot check a pod that is Pending, and frees its
// address while Multus or nadra attaches it. doctor must warn of this before, and not
// after.
func letGetPods(ctx context.Context) error {
	if err := doctorSays(ctx, translate.Warning, "get pods"); err != nil {
		return fmt.Errorf("asking doctor of whereabouts' own manifest: %w", err)
	}
	page, err := os.ReadFile(filepath.Join(lab.Root(), "docs", "cni", "whereabouts.md"))
	if err != nil {
		return err
	}
	command := getPods.FindSubmatch(page)
	if command == nil {
		return errors.New("docs/cni/whereabouts.md has no command that gives the reconciler the right to get pods")
	}
	if _, err := theLab.Cluster.ControlPlane().Exec(ctx, "sh", "-c", string(command[1])); err != nil {
		return fmt.Errorf("running the command of docs/cni/whereabouts.md: %w", err)
	}
	if err := doctorSays(ctx, translate.Info, ""); err != nil {
		return fmt.Errorf("asking doctor after the command of docs/cni/whereabouts.md: %w", err)
	}
	return nil
}

// doctorSays waits until doctor's check of whereabouts has a status and a text. The API
// server lists new CRDs, and applies new rights, a moment after it has accepted them.
func doctorSays(ctx context.Context, status translate.Severity, what string) error {
	return lab.Eventually(ctx, 30*time.Second, func(ctx context.Context) error {
		node := theLab.Cluster.ControlPlane()
		cmd := node.Command(ctx, lab.Built("kubectl-nadra"), "doctor", "-o", "json", "--kubeconfig", theLab.Cluster.Kubeconfig())
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := node.Run(cmd); err != nil && !errors.As(err, new(*exec.ExitError)) { // a blocker elsewhere
			return err
		}
		var r doctor.Report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			return fmt.Errorf("reading doctor's report: %w: %s", err, errs.String())
		}
		is := func(c doctor.Check) bool { return c.Title == "whereabouts" }
		if i := slices.IndexFunc(r.Checks, is); i < 0 {
			return errors.New("doctor has no check of whereabouts")
		} else if c := r.Checks[i]; c.Severity != status || !strings.Contains(c.Message, what) {
			return fmt.Errorf("doctor's check of whereabouts is %+v, want %s and %q", c, status, what)
		}
		return nil
	})
}

// conflict matches the errors of whereabouts' reconciler if a pool or a reservation has
// changed since it read them. A plugin changes them, or the reconciler that ip-control-loop
// runs at each full minute.
var conflict = regexp.MustCompile(`failed to update the reservation list: (the server rejected our request due to an error in our request|Operation cannot be fulfilled on)|could not reconcile cluster wide IPs: `)

// reconcile runs whereabouts' reconciler, again after each conflict, until a run
// succeeds. It returns the addresses that this run freed: earlier runs and
// ip-control-loop's may have freed others. In a burst a run may conflict until all
// pods have their addresses.
func (f *fixture) reconcile() (freed []string) {
	f.Helper()
	for began := time.Now(); ; {
		out, err := f.Cluster.ControlPlane().Exec(f.Ctx, whereabouts.Reconcile, f.Cluster.Kubeconfig())
		if err == nil {
			return strings.Fields(string(out))
		}
		if !conflict.MatchString(err.Error()) || time.Since(began) > burstLimit {
			f.Fatal(err)
		}
		f.Logf("the reconciler runs again: %s", conflict.FindString(err.Error()))
	}
}
