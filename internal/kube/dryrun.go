package kube

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DryRun is "server" if the API server only checks what would be written, "client" if
// nothing is sent, and empty for a real run.
type DryRun string

// Options returns the option DryRun of API requests.
func (d DryRun) Options() []string {
	if d == "" {
		return nil
	}
	return []string{metav1.DryRunAll}
}

// Write calls do, unless the dry run is the client's.
func (d DryRun) Write(do func() error) error {
	if d == "client" {
		return nil
	}
	return do()
}
