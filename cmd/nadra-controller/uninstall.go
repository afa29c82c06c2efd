package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nadra-dev/nadra/internal/controller"
	"github.com/nadra-dev/nadra/internal/installation"
)

// uninstall deletes the controller's objects that are not in use. It prints what it deletes,
// and what it keeps and why.
func uninstall(ctx context.Context, args []string) error {
	o, c, _, err := connect("uninstall", args)
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }
	u := installation.Remover{Client: c, Namespace: o.namespace, Secret: controller.Secret, Say: say}
	return u.Run(ctx)
}

// connect parses the flags of a command, and returns a client that reads without a cache.
func connect(command string, args []string) (o options, c client.Client, config *rest.Config, err error) {
	fs := flag.NewFlagSet("nadra-controller "+command, flag.ContinueOnError)
	common(fs, &o)
	if err := fs.Parse(args); err != nil {
		return o, nil, nil, err
	}
	ctrl.SetLogger(klog.Background())
	if config, err = o.config(); err != nil {
		return o, nil, nil, err
	}
	c, err = client.New(config, client.Options{Scheme: controller.Scheme()})
	return o, c, config, err
}
