package operations

import (
	"context"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// WithPod returns a context whose logger has the pod.
func WithPod(ctx context.Context, pod attachment.PodRef) context.Context {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KRef(pod.Namespace, pod.Name), "podUID", pod.UID)
	return klog.NewContext(ctx, logger)
}

// LoggerOf returns a logger with the record's network, interface and claim, if it has one,
// in a context that has the pod.
func LoggerOf(ctx context.Context, r checkpoint.Record) klog.Logger {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "network", r.Attachment.Network, "interface", r.Attachment.Interface)
	if r.Unclaimed() {
		return logger
	}
	return klog.LoggerWithValues(logger, "claim", klog.KRef(r.Claim.Namespace, r.Claim.Name))
}
