package cli

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// withRemedy adds the remedy to the error of a cluster that cannot be reached, or does not let the user in.
func withRemedy(err error) error {
	var request *url.Error
	var network net.Error
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: the cluster does not accept the credentials of the context: log in again, or choose another one by --context", err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: ask for this right, or use an account that has it (--context, --as); kubectl auth can-i --list shows what you may do", err)
	case errors.As(err, &request) && errors.As(err, &network):
		return fmt.Errorf("%w: the cluster does not answer: check that it runs, and that --context and --kubeconfig, or KUBECONFIG, name the one you mean", err)
	}
	return err
}
