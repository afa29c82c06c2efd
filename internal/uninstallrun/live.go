// Package uninstallrun takes nadra away from a cluster and its nodes. Everything is done
// by what is there, so that it can be done again after an interruption.
package uninstallrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/nodepod"
	"github.com/nadra-dev/nadra/internal/uninstall"
	"github.com/nadra-dev/nadra/internal/upgrade"
	"github.com/nadra-dev/nadra/internal/upgraderun"
)

// Uninstaller takes nadra away.
type Uninstaller struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
	// Client is for what the controller has made.
	Client client.Client
	Where  uninstall.Namespaces
	// Pods run on nodes; NodeArgs are more arguments of what runs there.
	Pods     *nodepod.Runner
	NodeArgs []string
	// Exclude are the names of nodes that are left as they are.
	Exclude []string
	// DryRun is empty, server or client.
	DryRun string
	// Timeout is how long anything may take that is waited for, Poll how often it
	// is asked for.
	Timeout, Poll time.Duration
	// Say tells what is done.
	Say func(format string, args ...any)
}

// HelmError says that Helm has installed what Helm must take away.
type HelmError struct{ Release, Namespace, Image string }

func (e *HelmError) Error() string {
	return fmt.Sprintf("Helm has installed nadra: helm uninstall %s -n %s takes away what it knows of; then kubectl nadra uninstall --image %s takes away the rest",
		e.Release, e.Namespace, e.Image)
}

// InUseError says who uses nadra.
type InUseError struct{ Users []uninstall.User }

func (e *InUseError) Error() string { return fmt.Sprintf("nadra is in use (%d)", len(e.Users)) }

// Check refuses what must not be taken away, and returns what will miss nadra.
func (u Uninstaller) Check(ctx context.Context) (notes []string, err error) {
	f, err := u.facts(ctx)
	if err != nil {
		return nil, err
	}
	if users := uninstall.InUse(f); len(users) > 0 {
		return nil, &InUseError{users}
	}
	if f.Records, err = u.records(ctx); err != nil {
		return nil, err
	}
	if users := uninstall.InUse(f); len(users) > 0 {
		return nil, &InUseError{users}
	}
	return uninstall.Notes(f), u.helm(ctx)
}

// helm leaves to Helm what Helm has installed.
func (u Uninstaller) helm(ctx context.Context) error {
	d, err := u.driver(ctx)
	if err != nil || d == nil || d.Annotations["meta.helm.sh/release-name"] == "" {
		return err
	}
	image := ""
	for _, c := range d.Spec.Template.Spec.Containers {
		if c.Name == uninstall.Driver {
			image = c.Image
		}
	}
	return &HelmError{d.Annotations["meta.helm.sh/release-name"], d.Annotations["meta.helm.sh/release-namespace"], image}
}

// driver is the driver's DaemonSet; nil where it is gone.
func (u Uninstaller) driver(ctx context.Context) (*appsv1.DaemonSet, error) {
	d, err := u.Kube.AppsV1().DaemonSets(u.Where.Driver).Get(ctx, uninstall.Driver, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading DaemonSet %s/%s: %w", u.Where.Driver, uninstall.Driver, err)
	}
	return d, nil
}

func (u Uninstaller) facts(ctx context.Context) (uninstall.Facts, error) {
	var f uninstall.Facts
	all := metav1.ListOptions{}
	claims, err := u.Kube.ResourceV1().ResourceClaims("").List(ctx, all)
	if err != nil {
		return f, fmt.Errorf("listing ResourceClaims: %w", err)
	}
	templates, err := u.Kube.ResourceV1().ResourceClaimTemplates("").List(ctx, all)
	if err != nil {
		return f, fmt.Errorf("listing ResourceClaimTemplates: %w", err)
	}
	pods, err := u.Kube.CoreV1().Pods("").List(ctx, all)
	if err != nil {
		return f, fmt.Errorf("listing pods: %w", err)
	}
	nodes, err := u.Kube.CoreV1().Nodes().List(ctx, all)
	if err != nil {
		return f, fmt.Errorf("listing nodes: %w", err)
	}
	namespaces, err := u.Kube.CoreV1().Namespaces().List(ctx, all)
	if err != nil {
		return f, fmt.Errorf("listing namespaces: %w", err)
	}
	f.Claims, f.Templates, f.Pods, f.Nodes, f.Namespaces = claims.Items, templates.Items, pods.Items, nodes.Items, namespaces.Items
	err = kube.EachWorkload(ctx, u.Kube, "", func(o metav1.Object, kind string, spec *corev1.PodSpec) {
		if kind != "ReplicaSet" || metav1.GetControllerOf(o) == nil {
			f.Workloads = append(f.Workloads, uninstall.Workload{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), Spec: spec})
		}
	})
	if err != nil {
		return f, err
	}
	f.Upgrade, err = u.upgrade(ctx)
	return f, err
}

// upgrade is what an upgrade is about that has not come to its end.
func (u Uninstaller) upgrade(ctx context.Context) (string, error) {
	_, state, _, err := upgraderun.Store{Kube: u.Kube, Namespace: u.Where.Controller}.Load(ctx)
	switch {
	case errors.Is(err, upgraderun.ErrNone):
		return "", nil
	case err != nil:
		return "", err
	case state.Phase == upgrade.Done || state.Phase == upgrade.RolledBack:
		return "", nil
	}
	return "it is " + string(state.Phase), nil
}

// Run takes nadra away. Whoever calls it has had Check agree. In the order of
// things nothing new can come, then nobody serves, then nothing is left.
func (u Uninstaller) Run(ctx context.Context) error {
	u.Say = once(u.Say)
	for _, step := range []func(context.Context) error{
		u.keepNote,
		u.deleting(u.Where.Webhooks()),
		u.deleting(u.Where.ControllerObjects()),
		u.awaitGone(u.Where.Controller, "nadra-controller"),
		u.whatWasMade,
		u.deleting(u.Where.DriverObjects()[:1]),
		u.stillUnused,
		u.deleting(u.Where.DriverObjects()[1:]),
		u.awaitGone(u.Where.Driver, uninstall.Driver),
		u.cleanNodes,
		u.deleting(u.Where.Rights()),
		u.slices,
		u.marks,
		u.namespaces,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stillUnused looks once more, now that no claim can be allocated any more.
func (u Uninstaller) stillUnused(ctx context.Context) error {
	f, err := u.facts(ctx)
	if err != nil {
		return err
	}
	if users := uninstall.InUse(f); len(users) > 0 && u.DryRun == "" {
		return &InUseError{users}
	}
	return nil
}

// whatWasMade takes away what the controller and admission have made.
func (u Uninstaller) whatWasMade(ctx context.Context) error {
	c := u.Client
	if u.DryRun != "" {
		c = client.NewDryRunClient(c)
	}
	out := &lines{say: u.Say}
	remover := OwnedRemover{
		Client: c, Namespace: u.Where.Controller, Secret: "nadra-webhook-tls", Out: out, All: true, DryRun: u.DryRun != "",
	}
	return remover.Run(ctx)
}

// once says nothing twice: a dry run comes upon some objects twice.
func once(say func(string, ...any)) func(string, ...any) {
	said := map[string]bool{}
	return func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); !said[line] {
			said[line] = true
			say("%s", line)
		}
	}
}

// lines says whole lines.
type lines struct{ say func(string, ...any) }

var _ io.Writer = (*lines)(nil)

func (l *lines) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		l.say("%s", strings.TrimSpace(line))
	}
	return len(p), nil
}

// await polls until still is empty; in time it must.
func (u Uninstaller) await(ctx context.Context, what string, ask func(context.Context) (still string, err error)) error {
	if u.DryRun != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, u.Timeout)
	defer cancel()
	for {
		still, err := ask(ctx)
		if err == nil && still == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("waiting for %s: %w", what, err)
			}
			return fmt.Errorf("waiting for %s: %w: %s", what, ctx.Err(), still)
		case <-time.After(u.Poll):
		}
	}
}

// awaitGone waits until no pod has a name of ours any more.
func (u Uninstaller) awaitGone(namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return u.await(ctx, "the end of "+name, func(ctx context.Context) (string, error) {
			pods, err := u.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
			if err != nil || len(pods.Items) == 0 {
				return "", err
			}
			return fmt.Sprintf("pod %s/%s on node %s is still there", namespace, pods.Items[0].Name, pods.Items[0].Spec.NodeName), nil
		})
	}
}
