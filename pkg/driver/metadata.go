package driver

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatav1alpha1 "k8s.io/dynamic-resource-allocation/api/metadata/v1alpha1"
	metadatav1beta1 "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
)

// metadataOptions returns the options with which the kubeletplugin helper gives containers a
// file about each request's devices (KEP-5304). The file also has the older version, because KubeVirt 1.9 reads only that.
func metadataOptions(cfg Config) []kubeletplugin.Option {
	if !cfg.DeviceMetadata {
		return nil
	}
	return []kubeletplugin.Option{
		kubeletplugin.EnableDeviceMetadata(true, []schema.GroupVersion{metadatav1beta1.SchemeGroupVersion, metadatav1alpha1.SchemeGroupVersion}),
		kubeletplugin.CDIDirectory(cfg.CDIDir),
	}
}

// kubeletDevices returns the devices of records for the kubelet.
func (c Config) kubeletDevices(records []checkpoint.Record) []kubeletplugin.Device {
	out := make([]kubeletplugin.Device, len(records))
	for i, r := range records {
		out[i] = kubeletplugin.Device{Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device}
		if c.DeviceMetadata {
			out[i].Metadata = metadataOf(r)
		}
		if !failpoint.Off(failpoint.Gate) {
			out[i].CDIDeviceIDs = cdi.DeviceIDs(r)
		}
		if r.ShareID != "" {
			share := types.UID(r.ShareID)
			out[i].ShareID = &share
		}
	}
	return out
}

// updateMetadata adds the interfaces of an attached pod to its files, before the pod's containers
// are created. A file that cannot be written keeps no pod from its networks.
func (n *node) updateMetadata(ctx context.Context, pod attachment.PodRef) {
	helper := n.metadata.Load()
	if helper == nil {
		return
	}
	type key struct {
		claim   attachment.ClaimRef
		request string
	}
	byRequest := map[key][]checkpoint.Record{}
	for _, r := range checkpoint.Networks(n.store.ForPod(pod.UID)) {
		if r.Unclaimed() { // such a file belongs to a request of a claim
			continue
		}
		k := key{r.Claim, r.Request}
		byRequest[k] = append(byRequest[k], r)
	}
	for k, records := range byRequest {
		if err := helper.UpdateRequestMetadata(ctx, k.claim.Namespace, k.claim.Name, types.UID(k.claim.UID), k.request, n.cfg.kubeletDevices(records)); err != nil {
			klog.FromContext(ctx).Info("The file about a request's devices has no interface", "claim", klog.KRef(k.claim.Namespace, k.claim.Name), "request", k.request, "err", err)
		}
	}
}

// Names of attributes with the NAD of a request, in the driver's domain. They are in these files only: a
// published device has many networks.
const (
	attrNADNamespace = "nadNamespace"
	attrNADName      = "nadName"
)

// metadataOf describes a record's device for a container: by the device's attributes and,
// once it is attached, the interface.
func metadataOf(r checkpoint.Record) *kubeletplugin.DeviceMetadata {
	out := &kubeletplugin.DeviceMetadata{Attributes: map[string]resourceapi.DeviceAttribute{}}
	if h := r.Hardware; h != nil {
		out.Attributes[attachment.AttributeDeviceID] = offer.String(h.ID)
		out.Attributes[attachment.AttributeResourceName] = offer.String(h.ResourceName)
		if h.PCIAddress != "" {
			out.Attributes["resource.kubernetes.io/pciBusID"] = offer.String(h.PCIAddress)
		}
	}
	if !r.DeviceOnly {
		out.Attributes[attrNADNamespace] = offer.String(r.Attachment.Network.Namespace)
		out.Attributes[attrNADName] = offer.String(r.Attachment.Network.Name)
	}
	out.NetworkData = claimstatus.NetworkData(r.Attachment.Interface, r.Result)
	return out
}
