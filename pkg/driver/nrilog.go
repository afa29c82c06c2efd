package driver

import (
	"context"
	"fmt"

	nrilog "github.com/containerd/nri/pkg/log"
	"k8s.io/klog/v2"
)

// nriLogger has the NRI stub write to the driver's log. What it calls
// information is about its own start, which hooks.Synchronize tells better.
type nriLogger struct{ klog.Logger }

var _ nrilog.Logger = nriLogger{}

func (l nriLogger) Debugf(_ context.Context, format string, args ...any) {
	l.V(4).Info(fmt.Sprintf(format, args...))
}

func (l nriLogger) Infof(_ context.Context, format string, args ...any) {
	l.V(2).Info(fmt.Sprintf(format, args...))
}

func (l nriLogger) Warnf(_ context.Context, format string, args ...any) {
	l.Info(fmt.Sprintf(format, args...))
}

func (l nriLogger) Errorf(_ context.Context, format string, args ...any) {
	l.Error(nil, fmt.Sprintf(format, args...))
}
