//go:build e2e

package kubevirt

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nadra-dev/nadra/test/lab"
)

// The resources of KubeVirt.
var (
	instances  = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstances"}
	machines   = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachines"}
	migrations = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: "virtualmachineinstancemigrations"}
)

// domain is the word in the infoSource of an interface that the guest has.
const domain = "domain"

// The stand-in for virt-handler. virt-controller hands a machine over when its launcher pod is ready; from then on
// virt-handler writes what the guest does into the machine's instance.

// runs reports that a machine's guest runs, with all interfaces that its launcher pod has.
func (f *fixture) runs(name string) {
	f.Helper()
	f.instance(name, "is scheduled", func(i *unstructured.Unstructured) error { return inPhase(i, "Scheduled") })
	f.asHandler(name, func(i *unstructured.Unstructured) {
		set(i, "Running", "status", "phase")
		set(i, "none", "status", "selinuxContext")
		condition := map[string]any{"type": "LiveMigratable", "status": "True", "lastProbeTime": now(), "lastTransitionTime": now()}
		conditions, _, _ := unstructured.NestedSlice(i.Object, "status", "conditions")
		set(i, append(conditions, condition), "status", "conditions")
		eachInterface(i, func(status map[string]any) { setSource(status, domain, true) })
	})
}

// plugged reports that the guest has an interface.
func (f *fixture) plugged(name, network string) {
	f.Helper()
	f.asHandler(name, func(i *unstructured.Unstructured) {
		eachInterface(i, func(status map[string]any) {
			if status["name"] == network {
				setSource(status, domain, true)
			}
		})
	})
}

// unplugged reports that the guest no longer has an interface, and forgets it when the pod has not either.
func (f *fixture) unplugged(name, network string) {
	f.Helper()
	f.asHandler(name, func(i *unstructured.Unstructured) {
		eachInterface(i, func(status map[string]any) {
			if status["name"] == network {
				setSource(status, domain, false)
			}
		})
	})
	f.instance(name, "no longer shows network "+network+" in the pod", func(i *unstructured.Unstructured) error {
		if shown := shownInterface(i, network); shown != "" {
			return fmt.Errorf("virt-controller shows it as %s", shown)
		}
		return nil
	})
	f.asHandler(name, func(i *unstructured.Unstructured) {
		all, _, _ := unstructured.NestedSlice(i.Object, "status", "interfaces")
		set(i, slices.DeleteFunc(all, func(item any) bool { return item.(map[string]any)["name"] == network }), "status", "interfaces")
	})
}

// migrated moves a machine's guest to the launcher pod that virt-controller has prepared, as the virt-handlers of
// both nodes do, and ends the launcher of the source. during is called while both pods run.
func (f *fixture) migrated(name string, during func(source, target string)) {
	f.Helper()
	i := f.instance(name, "has a target", func(i *unstructured.Unstructured) error {
		if text(i, "status", "migrationState", "targetPod") == "" || text(i, "status", "migrationState", "endTimestamp") != "" {
			return fmt.Errorf("no migration waits for virt-handler: %v", i.Object["status"].(map[string]any)["migrationState"])
		}
		return nil
	})
	source, target := f.launchers(name, text(i, "status", "nodeName"))[0], text(i, "status", "migrationState", "targetPod")
	during(source, target)
	f.asHandler(name, func(i *unstructured.Unstructured) {
		set(i, "127.0.0.1", "status", "migrationState", "targetNodeAddress")
		set(i, map[string]any{"49152": int64(0)}, "status", "migrationState", "targetDirectMigrationNodePorts")
	})
	f.asHandler(name, func(i *unstructured.Unstructured) {
		set(i, now(), "status", "migrationState", "startTimestamp")
	})
	migration := text(i, "status", "migrationState", "migrationUid")
	f.migration(migration, "Running")
	f.asHandler(name, func(i *unstructured.Unstructured) {
		node := text(i, "status", "migrationState", "targetNode")
		set(i, now(), "status", "migrationState", "targetNodeDomainReadyTimestamp")
		set(i, now(), "status", "migrationState", "endTimestamp")
		set(i, true, "status", "migrationState", "completed")
		set(i, node, "status", "nodeName")
		labels := i.GetLabels()
		delete(labels, "kubevirt.io/migrationTargetNodeName")
		labels["kubevirt.io/nodeName"] = node
		i.SetLabels(labels)
	})
	f.migration(migration, "Succeeded")
	f.endLauncher(source)
}

// endLauncher asks the first process of a launcher pod to end. Its end may kill the process that asks before that has
// ended by itself; whether the pod ends, freed checks.
func (f *fixture) endLauncher(pod string) {
	f.Helper()
	_, err := f.Cluster.Kubectl(f.Ctx, "-n", f.NS, "exec", pod, "-c", "compute", "--", "/usr/bin/virt-launcher-monitor", "end")
	if killed := new(exec.ExitError); errors.As(err, &killed) && killed.ExitCode() == 128+int(syscall.SIGKILL) {
		return
	}
	f.Must(err)
}

// ended reports that a deleted machine's guest has ended.
func (f *fixture) ended(name string) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		i, err := user.Resource(instances).Namespace(f.NS).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if i.GetDeletionTimestamp() == nil {
			return fmt.Errorf("instance %s is not being deleted", name)
		}
		if slices.Contains([]string{"Succeeded", "Failed"}, text(i, "status", "phase")) {
			return nil
		}
		return f.update(ctx, i, func(i *unstructured.Unstructured) { set(i, "Succeeded", "status", "phase") })
	})
}

// update changes an instance with the identity of its node's virt-handler. It refuses an instance without a node.
func (f *fixture) update(ctx context.Context, i *unstructured.Unstructured, change func(*unstructured.Unstructured)) error {
	handler, found := handlers[text(i, "status", "nodeName")]
	if !found {
		return fmt.Errorf("instance %s is on no node", i.GetName())
	}
	change(i)
	_, err := handler.Resource(instances).Namespace(f.NS).Update(ctx, i, metav1.UpdateOptions{})
	return err
}

// asHandler changes a machine's instance with virt-handler's identity.
func (f *fixture) asHandler(name string, change func(*unstructured.Unstructured)) {
	f.Helper()
	f.Eventually(time.Minute, func(ctx context.Context) error {
		i, err := user.Resource(instances).Namespace(f.NS).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return f.update(ctx, i, change)
	})
}

// instance waits until a machine's instance is as wanted.
func (f *fixture) instance(name, what string, ok func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	f.Helper()
	var out *unstructured.Unstructured
	err := lab.Eventually(f.Ctx, waitLimit, func(ctx context.Context) error {
		var err error
		if out, err = user.Resource(instances).Namespace(f.NS).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		return ok(out)
	})
	if err != nil {
		f.Fatalf("waiting until instance %s %s: %v", name, what, err)
	}
	return out
}

// migration waits until virt-controller has brought a migration to a phase.
func (f *fixture) migration(uid, phase string) {
	f.Helper()
	f.Eventually(waitLimit, func(ctx context.Context) error {
		list, err := user.Resource(migrations).Namespace(f.NS).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, m := range list.Items {
			if string(m.GetUID()) == uid {
				return inPhase(&m, phase)
			}
		}
		return fmt.Errorf("there is no migration with UID %s", uid)
	})
}

// now returns the time as virt-controller writes it. It compares texts.
func now() string { return metav1.Now().UTC().Format(time.RFC3339) }

func inPhase(o *unstructured.Unstructured, want string) error {
	if phase := text(o, "status", "phase"); phase != want {
		return fmt.Errorf("%s %s is in phase %q, want %s: %v", o.GetKind(), o.GetName(), phase, want, o.Object["status"])
	}
	return nil
}

// text returns a string of an object, "" if it has none.
func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

func set(o *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
		panic(err) // an object of another form than KubeVirt's
	}
}

// eachInterface changes the status of each interface of an instance.
func eachInterface(i *unstructured.Unstructured, change func(map[string]any)) {
	all, _, _ := unstructured.NestedSlice(i.Object, "status", "interfaces")
	for _, item := range all {
		change(item.(map[string]any))
	}
	set(i, all, "status", "interfaces")
}

// setSource adds a word to the infoSource of an interface's status, or removes it.
func setSource(status map[string]any, word string, has bool) {
	words, _ := status["infoSource"].(string)
	list := strings.FieldsFunc(words, func(r rune) bool { return r == ',' || r == ' ' })
	list = slices.DeleteFunc(list, func(w string) bool { return w == word })
	if has {
		list = append([]string{word}, list...)
	}
	status["infoSource"] = strings.Join(list, ", ")
}
