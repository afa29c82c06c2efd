package main

import (
	"context"
	"flag"
	"os"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/internal/controller"
	"github.com/nadra-dev/nadra/internal/uninstallrun"
)

// uninstall deletes the controller's objects that are not in use. It prints what it deletes,
// and what it keeps and why.
func uninstall(ctx context.Context, args []string) error {
	var o options
	fs := flag.NewFlagSet("nadra-controller uninstall", flag.ContinueOnError)
	common(fs, &o)
	if err := fs.Parse(args); err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	config, err := o.config()
	if err != nil {
		return err
	}
	c, err := client.New(config, client.Options{Scheme: controller.Scheme()})
	if err != nil {
		return err
	}
	u := uninstallrun.OwnedRemover{Client: c, Namespace: o.Namespace, Secret: o.Secret, Out: os.Stdout}
	return u.Run(ctx)
}
