package doctor

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/kube"
)

// readWebhook finds the configuration of nadra's webhook, and counts the ready endpoints of its Service.
func (r *reader) readWebhook(ctx context.Context) {
	client := r.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	read := each(ctx, r, PartWebhook, "mutatingwebhookconfigurations.admissionregistration.k8s.io", kube.All, client.List, func(c *admissionv1.MutatingWebhookConfiguration) {
		for _, w := range c.Webhooks {
			s := w.ClientConfig.Service
			if s == nil || s.Name != installation.WebhookService {
				continue
			}
			if r.caps.Webhook == nil {
				r.caps.Webhook = &Webhook{Configuration: c.Name, Namespace: s.Namespace, Service: s.Name}
			}
			if len(w.ClientConfig.CABundle) == 0 {
				r.caps.Webhook.Untrusted = append(r.caps.Webhook.Untrusted, c.Name+"/"+w.Name)
			}
		}
	})
	if !read || r.caps.Webhook == nil {
		return
	}
	w := r.caps.Webhook
	of := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + w.Service}
	ready := map[string]bool{}
	right := "endpointslices.discovery.k8s.io of namespace " + w.Namespace
	each(ctx, r, PartWebhook, right, of, r.Kube.DiscoveryV1().EndpointSlices(w.Namespace).List, func(s *discoveryv1.EndpointSlice) {
		for _, e := range s.Endpoints {
			for _, address := range e.Addresses {
				ready[address] = ready[address] || ptr.Deref(e.Conditions.Ready, true)
			}
		}
	})
	for _, is := range ready {
		if is {
			w.Ready++
		}
	}
}

// readSlices counts the devices of nadra's ResourceSlices, and finds the networks that none of them offers.
func (r *reader) readSlices(ctx context.Context) {
	out, in := &Published{}, inspect.Input{Networks: r.networks}
	if !each(ctx, r, PartSlices, "resourceslices.resource.k8s.io", kube.OwnSlices, r.Kube.ResourceV1().ResourceSlices().List, func(s *resourceapi.ResourceSlice) {
		in.Slices = append(in.Slices, s)
		out.Devices += len(s.Spec.Devices)
	}) {
		return // without the API there are none, as the check dra-api says
	}
	out.Slices, r.caps.Published = len(in.Slices), out
	if r.failed(PartSlices, "", inspect.ReadProfiles(ctx, r.Kube, &in), "the right to list nodes") {
		return
	}
	out.Unoffered = []string{}
	for _, n := range inspect.OfferedNetworks(in) {
		if len(n.Nodes) == 0 && (n.Pool == "" || r.installed.Pools()) { // else it is a device plugin's, and Multus serves its pods
			out.Unoffered = append(out.Unoffered, n.Namespace+"/"+n.Name)
		}
	}
}
