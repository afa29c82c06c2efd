package cli

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestImageOfPodsOnNodes checks that pods, which see the host, run the image of a driver in their own namespace, or the one
// that the user names, and have the directories of no other: a tenant may have an older DaemonSet like the driver's.
func TestImageOfPodsOnNodes(t *testing.T) {
	driver := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: "nadra-node"}}
	driver.Spec.Template.Spec.Containers = []corev1.Container{{Name: "nadra-node", Image: "driver:1"}}
	theirs := driver.DeepCopy()
	theirs.Namespace, driver.CreationTimestamp = "tenant", metav1.Now()
	theirs.Spec.Template.Spec.Containers[0].Args = []string{"--state-dir=/var/lib/kubelet"}
	for _, tt := range []struct{ namespace, image, want string }{
		{"nadra", "", "driver:1"}, {"kube-system", "", ""}, {"kube-system", "other:1", "other:1"},
	} {
		flags := nodeFlags{namespace: tt.namespace, image: tt.image, timeout: time.Minute}
		runner, of, err := flags.pods(t.Context(), fake.NewClientset(driver, theirs))
		if (err == nil) != (tt.want != "") || err == nil && runner.Image != tt.want {
			t.Errorf("%+v: %+v, %v", tt, runner, err)
		}
		if args := nodeArgs(of, "state-dir"); len(args) > 0 {
			t.Errorf("%+v: the pods get %q of a tenant's DaemonSet", tt, args)
		}
	}
}
