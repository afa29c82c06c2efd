// Command reconcile runs whereabouts' reconciler once, as ip-control-loop does
// by its schedule: tests need not wait for the next minute.
//
//	reconcile KUBECONFIG
package main

import (
	"fmt"
	"os"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/reconciler"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reconcile:", err)
		os.Exit(1)
	}
}

func run(kubeconfig string) error {
	client, err := kubernetes.NewClientViaKubeconfig(kubeconfig)
	if err != nil {
		return fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	loop, err := reconciler.NewReconcileLooperWithClient(client)
	if err != nil {
		return fmt.Errorf("looking for allocations without a pod: %w", err)
	}
	freed, err := loop.ReconcileIPPools()
	if err != nil {
		return fmt.Errorf("freeing addresses: %w", err)
	}
	for _, ip := range freed {
		fmt.Println(ip)
	}
	return loop.ReconcileOverlappingIPAddresses()
}
