package offer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// maxNames limits the text that names the networks of a slice, in bytes: each watcher of slices gets it.
const maxNames = 4 << 10

// Shared returns the slices of a profile whose nodes share what is offered. Each is a pool of its own, so that a network
// that comes or goes changes one slice by one write.
func (o *Offer) Shared(profile string) []*resourceapi.ResourceSlice {
	names := map[attachment.NetworkID]string{}
	for _, d := range o.Networks {
		names[d.ID] = d.Network.Ref.String()
	}
	var out []*resourceapi.ResourceSlice
	for i, devices := range o.Slices() {
		content, _ := json.Marshal(devices) // never fails
		hash := sha256.Sum256(content)
		pool := fmt.Sprintf("%s-%d", profile, i)
		out = append(out, &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{
				Name:        "nadra-" + pool,
				Labels:      map[string]string{v1alpha1.ProfileLabel: profile, v1alpha1.ManagedByLabel: v1alpha1.Controller},
				Annotations: map[string]string{v1alpha1.OffersAnnotation: namesIn(devices, names), v1alpha1.OfferHashAnnotation: hex.EncodeToString(hash[:8])},
			},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: v1alpha1.DriverName, Devices: devices,
				Pool:         resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1},
				NodeSelector: selectorOf(profile),
			},
		})
	}
	return out
}

// selectorOf returns the selector for the nodes of a profile.
func selectorOf(profile string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: v1alpha1.ProfileLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{profile}}},
	}}}
}

// namesIn returns the names of the networks that devices list, as far as there is room.
func namesIn(devices []resourceapi.Device, names map[attachment.NetworkID]string) string {
	var out []string
	for _, d := range devices {
		for id := range attachment.NetworkIDs(d.Attributes) {
			out = append(out, names[id])
		}
	}
	slices.SortFunc(out, cmp.Compare)
	return words.Short(strings.Join(out, ", "), maxNames)
}
