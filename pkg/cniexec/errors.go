package cniexec

import (
	"errors"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
)

// Message returns the text of a plugin's error, with the code to which the CNI
// specification gives a meaning if the error has one.
func Message(err error) string {
	var reported *types.Error
	if errors.As(err, &reported) {
		return fmt.Sprintf("%v (CNI code %d)", err, reported.Code)
	}
	return err.Error()
}
