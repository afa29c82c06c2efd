package doctor

import (
	"context"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/internal/kube"
)

const whereaboutsGroup = "whereabouts.cni.cncf.io"

// readWhereabouts finds the reconcilers of whereabouts that may not get pods.
func (r *reader) readWhereabouts(ctx context.Context) {
	if !slices.Contains(r.groups, whereaboutsGroup) {
		return
	}
	out := &Whereabouts{}
	err := r.readBlind(ctx, out)
	r.failed(PartWhereabouts, "", err, "the right to list daemonsets.apps and to create subjectaccessreviews.authorization.k8s.io")
	r.caps.Whereabouts = out
}

// readBlind finds service accounts of whereabouts' DaemonSets that may not get pods.
func (r *reader) readBlind(ctx context.Context, out *Whereabouts) error {
	accounts := map[types.NamespacedName]bool{}
	client := r.Kube.AppsV1().DaemonSets("")
	err := kube.EachItem(ctx, kube.All, client.List, func(d *appsv1.DaemonSet) {
		if name := d.Spec.Template.Spec.ServiceAccountName; name != "" && isWhereabouts(d) {
			accounts[types.NamespacedName{Namespace: d.Namespace, Name: name}] = true
		}
	})
	if err != nil {
		return err
	}
	for account := range accounts {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + account.Namespace + ":" + account.Name,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
		}}
		review, err := r.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if !review.Status.Allowed {
			out.Blind = append(out.Blind, account.String())
		}
	}
	slices.Sort(out.Blind)
	return nil
}

// isWhereabouts reports whether a DaemonSet runs whereabouts, by its image or its program.
func isWhereabouts(d *appsv1.DaemonSet) bool {
	return slices.ContainsFunc(wordsOf(d), func(word string) bool {
		return strings.Contains(path.Base(word), "whereabouts") || path.Base(word) == "ip-control-loop"
	})
}
