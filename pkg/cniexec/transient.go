package cniexec

import (
	"io/fs"

	"github.com/containernetworking/cni/pkg/types"
)

// trouble is a failure to run a plugin to an answer: it was not found, could
// not be started, was killed, or did not speak CNI.
type trouble struct{ error }

func (t *trouble) Unwrap() error { return t.error }

// Transient reports whether an error of Add or Del may be gone when the same
// call is made again, in the same sandbox.
//
// It may be when the plugin says so, by code 11, "try again later" (CNI
// specification, § "Error"), and when no plugin has answered: its binary is
// missing or being written, it was killed by a signal or at the deadline, it
// failed without a CNI error, it wrote something that is not JSON, or the disk
// was full. All of these are about the node and the moment.
//
// It is not for any other CNI error: the plugin has understood what it is
// asked for and refuses it. Nor is it for a configuration that cannot be read,
// a name that libcni does not accept (which is a CNI error, though no plugin
// ran), or a result in a version that cannot be converted.
//
// The outermost error that says anything decides. Of joined errors only the
// first counts, so that a rollback that also failed does not change what is to
// be thought of the failure that led to it.
func Transient(err error) bool {
	for err != nil {
		switch e := err.(type) { //nolint:errorlint // it walks the tree that errors.As would walk, without the later branches
		case *types.Error:
			return e.Code == types.ErrTryAgainLater
		case *trouble, *fs.PathError:
			return true
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			joined := e.Unwrap()
			if len(joined) == 0 {
				return false
			}
			err = joined[0]
		default:
			return false
		}
	}
	return false
}
