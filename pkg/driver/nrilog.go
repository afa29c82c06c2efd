package driver

import (
	"context"
	"fmt"

	nrilog "github.com/containerd/nri/pkg/log"
	"k8s.io/klog/v2"
)

// nriLogger writes the log of the NRI stub to the driver's log. The stub's information is about
// its own start, which hooks.Synchronize logs better. A support bundle reduces the texts of this file, by its
// name: they are the library's.
type nriLogger struct{ klog.Logger }

var _ nrilog.Logger = nriLogger{}

// Debugf logs at level 4.
func (l nriLogger) Debugf(_ context.Context, format string, args ...any) {
	l.V(4).Info(fmt.Sprintf(format, args...))
}

// Infof logs at level 2.
func (l nriLogger) Infof(_ context.Context, format string, args ...any) {
	l.V(2).Info(fmt.Sprintf(format, args...))
}

// Warnf logs at level 0.
func (l nriLogger) Warnf(_ context.Context, format string, args ...any) {
	l.Info(fmt.Sprintf(format, args...))
}

// Errorf logs an error.
func (l nriLogger) Errorf(_ context.Context, format string, args ...any) {
	l.Error(nil, fmt.Sprintf(format, args...))
}
