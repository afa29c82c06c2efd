package driver

import (
	"context"
	"errors"
	"fmt"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/truncate"
)

// reportHealth tells that a network is withdrawn from this node, and why, or
// that it is back.
func (d *Driver) reportHealth(ctx context.Context, network attachment.NetworkRef, uid types.UID, why error) {
	if why == nil {
		klog.FromContext(ctx).Info("Network is offered again: its plugins answer to STATUS that they are well", "network", network)
		d.events.Network(network, uid, corev1.EventTypeNormal, events.NetworkAvailable, fmt.Sprintf(
			"node %s offers the network again: its plugins answer to STATUS that they are well", d.cfg.NodeName))
		return
	}
	klog.FromContext(ctx).Info("Network is withdrawn from this node: a plugin is not well by its answer to STATUS", "network", network, "reason", cniMessage(why))
	d.events.Network(network, uid, corev1.EventTypeWarning, events.NetworkUnavailable, truncate.Text(reason.PluginUnhealthy.Text(fmt.Sprintf(
		"node %s does not offer the network to new pods: %s; pods that have it keep it; STATUS is asked every %s, and the network is offered again when it succeeds",
		d.cfg.NodeName, truncate.Text(cniMessage(why), events.MaxMessage/2), statusRetry)), events.MaxMessage))
}

// cniMessage is an error of plugins with the code, where it has one, that the
// CNI specification gives a meaning to.
func cniMessage(err error) string {
	var reported *cnitypes.Error
	if errors.As(err, &reported) {
		return fmt.Sprintf("%v (CNI code %d)", err, reported.Code)
	}
	return err.Error()
}
