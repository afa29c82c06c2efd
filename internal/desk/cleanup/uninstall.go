package cleanup

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Uninstaller removes nadra.
type Uninstaller struct {
	Kube kubernetes.Interface
	// Client is the client for objects of any kind.
	Client client.Client
	Where  Namespaces
	// Pods runs pods on nodes; NodeArgs are further arguments of nadra-node there.
	Pods     *nodepod.Runner
	NodeArgs []string
	// Exclude are the names of nodes that are not touched.
	Exclude []string
	DryRun  kube.DryRun
	// Timeout limits each wait, Poll is the time between two checks of a wait.
	Timeout, Poll time.Duration
	// Say reports progress.
	Say func(format string, args ...any)
}

// InUseError means that nadra is in use.
type InUseError struct{ Users []translate.Finding }

func (e *InUseError) Error() string {
	return reason.NadraInUse.Text("nadra is in use")
}

// ReasonCode returns reason.NadraInUse.
func (e *InUseError) ReasonCode() reason.Code { return reason.NadraInUse }

// Check fails if nadra is in use, if Helm installed it, or if its objects have no label by which to find them. Its notes
// list workloads that will not work without nadra.
func (u Uninstaller) Check(ctx context.Context) (notes []translate.Finding, err error) {
	f, err := u.facts(ctx)
	if err != nil {
		return nil, err
	}
	if users := inUse(f); len(users) > 0 {
		return nil, &InUseError{users}
	}
	if f.Records, err = u.records(ctx); err != nil {
		return nil, err
	}
	if users := inUse(f); len(users) > 0 {
		return nil, &InUseError{users}
	}
	return notesOf(f), u.checkInstalled(ctx)
}

// checkInstalled fails if Helm installed the driver, or manifests whose objects have no label.
func (u Uninstaller) checkInstalled(ctx context.Context) error {
	var d appsv1.DaemonSet
	for _, o := range []struct {
		client.Object
		kind, namespace, name string
	}{
		{&d, "DaemonSet", u.Where.Driver, driver},
		{&appsv1.Deployment{}, "Deployment", u.Where.Controller, v1alpha1.Controller},
		{&rbacv1.ClusterRole{}, "ClusterRole", "", driver}, // is among the last that go
	} {
		err := u.Client.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: o.name}, o.Object)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("reading %s %s: %w", o.kind, o.name, err)
		case d.Annotations["meta.helm.sh/release-name"] != "":
			return helmError(&d)
		case o.GetLabels()[partOf] != nadra:
			return fmt.Errorf("%s %s has no label %s=%s, by which nadra's objects are found: first apply the manifests of this version", o.kind, o.name, partOf, nadra)
		}
	}
	return nil
}

// helmError returns the error for a driver that Helm installed, and whose release Helm must remove first.
func helmError(d *appsv1.DaemonSet) error {
	image := ""
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == driver {
			image = c.Image
		}
	}
	return reason.Errorf(reason.InstalledByHelm, "Helm installed nadra: first run helm uninstall %s -n %s, then kubectl nadra uninstall --image %s for the rest",
		d.Annotations["meta.helm.sh/release-name"], d.Annotations["meta.helm.sh/release-namespace"], image)
}

// Run removes nadra. Check must have succeeded. The order of steps ensures that first no
// new pod becomes nadra's, and that the driver runs until nadra is unused.
func (u Uninstaller) Run(ctx context.Context) error {
	u.Say = once(u.Say)
	for _, step := range []func(context.Context) error{
		u.saveNote,
		u.deleteInstalled(webhooks),
		u.deleteInstalled(controllerKinds),
		u.awaitGone(u.Where.Controller, v1alpha1.Controller),
		u.remover().Run,
		u.deleteInstalled(classes),
		u.checkAgain,
		u.deleteInstalled(driverKinds),
		u.awaitGone(u.Where.Driver, driver),
		u.cleanNodes,
		u.deleteInstalled(rights),
		u.deleteState,
		u.deleteSlices,
		u.removeMarks,
		u.deleteNamespaces,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// remover returns what deletes objects.
func (u Uninstaller) remover() *installation.Remover {
	return &installation.Remover{
		Client: u.Client, Namespace: u.Where.Controller, Secret: "nadra-webhook-tls", Say: u.Say, All: true, DryRun: u.DryRun,
	}
}

// checkAgain checks that nadra is unused, now that no claim can be allocated any more.
func (u Uninstaller) checkAgain(ctx context.Context) error {
	f, err := u.facts(ctx)
	if err != nil {
		return err
	}
	if users := inUse(f); len(users) > 0 && u.DryRun == "" {
		return &InUseError{users}
	}
	return nil
}

// once drops repeated messages: a dry run finds some objects twice.
func once(say func(string, ...any)) func(string, ...any) {
	reported := map[string]bool{}
	return func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); !reported[line] {
			reported[line] = true
			say("%s", line)
		}
	}
}

// await waits until nothing is missing, and retries errors. A dry run does not wait.
func (u Uninstaller) await(ctx context.Context, what string, check kube.Check) error {
	if u.DryRun != "" {
		return nil
	}
	err := kube.Await(ctx, u.Poll, u.Timeout, func(ctx context.Context) (string, error) {
		missing, err := check(ctx)
		if err != nil {
			missing = err.Error()
		}
		return missing, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}

// awaitGone waits until all pods with a name label are gone.
func (u Uninstaller) awaitGone(namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return u.await(ctx, "the end of "+name, func(ctx context.Context) (string, error) {
			pods, err := u.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
			if err != nil || len(pods.Items) == 0 {
				return "", err
			}
			return fmt.Sprintf("pod %s/%s on node %s still runs", namespace, pods.Items[0].Name, pods.Items[0].Spec.NodeName), nil
		})
	}
}
