package driver

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	metadatav1beta1 "k8s.io/dynamic-resource-allocation/api/metadata/v1beta1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/truncate"
)

// metadataOptions have the kubeletplugin helper put a file about each request's
// devices into containers (KEP-5304).
func (d *Driver) metadataOptions() []kubeletplugin.Option {
	if !d.cfg.DeviceMetadata {
		return nil
	}
	return []kubeletplugin.Option{
		kubeletplugin.EnableDeviceMetadata(true, metadataVersions),
		kubeletplugin.CDIDirectory(d.cfg.CDIDir),
	}
}

var metadataVersions = []schema.GroupVersion{metadatav1beta1.SchemeGroupVersion}

// metadataOf is what a container is told of a record's device: by the names of
// the device's attributes and, once it is attached, the interface.
func metadataOf(r checkpoint.Record) *kubeletplugin.DeviceMetadata {
	text := func(s string) resourceapi.DeviceAttribute {
		return resourceapi.DeviceAttribute{StringValue: ptr.To(truncate.Text(s, maxAttribute))}
	}
	out := &kubeletplugin.DeviceMetadata{Attributes: map[string]resourceapi.DeviceAttribute{}}
	if h := r.Hardware; h != nil {
		out.Attributes[attachment.AttributeDeviceID] = text(h.ID)
		out.Attributes[attachment.AttributeResourceName] = text(h.ResourceName)
		if h.PCIAddress != "" {
			out.Attributes["resource.kubernetes.io/pciBusID"] = text(h.PCIAddress)
		}
	}
	if !r.DeviceOnly {
		out.Attributes[attrNamespace] = text(r.Attachment.Network.Namespace)
		out.Attributes[attrName] = text(r.Attachment.Network.Name)
	}
	out.NetworkData = claimstatus.NetworkData(r.Attachment.Interface, r.Result)
	return out
}

// tellMetadata adds the interfaces to the files, before the pod's containers
// are made. A file that cannot be written keeps no pod from its networks.
func (d *Driver) tellMetadata(ctx context.Context, pod attachment.PodRef) {
	if d.updateMetadata == nil {
		return
	}
	type key struct {
		claim   attachment.ClaimRef
		request string
	}
	byRequest := map[key][]checkpoint.Record{}
	for _, r := range checkpoint.Networks(d.store.ForPod(pod.UID)) {
		k := key{r.Claim, r.Request}
		byRequest[k] = append(byRequest[k], r)
	}
	for k, records := range byRequest {
		if err := d.updateMetadata(ctx, k.claim.Namespace, k.claim.Name, types.UID(k.claim.UID), k.request, d.devicesOf(records)); err != nil {
			klog.FromContext(ctx).Info("The file about a request's devices has no interface", "claim", klog.KRef(k.claim.Namespace, k.claim.Name), "request", k.request, "reason", err.Error())
		}
	}
}
