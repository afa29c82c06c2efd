package cniexec

import (
	"io/fs"

	"github.com/containernetworking/cni/pkg/types"
)

// noAnswer is the error of a plugin that gave no answer: it was not found, could not be
// started, was killed, or did not return a CNI result or error.
type noAnswer struct{ error }

func (e *noAnswer) Unwrap() error { return e.error }

// Transient reports whether the same call of Add or Del, in the same sandbox, may succeed
// later.
//
// It may after CNI's error code 11, "try again later" (CNI specification, § "Error"), and
// if no plugin has answered: its binary is missing or being written, it was killed by a
// signal or at the deadline, it failed without a CNI error, its output is not JSON, or the
// disk was full. All of these depend on the node and the moment.
//
// It does not after any other CNI error: the plugin has understood the request and refuses
// it. Nor does it if the configuration cannot be read, libcni rejects a name (with a CNI
// error, although no plugin ran), or the result's version cannot be converted.
//
// The outermost error of a known type decides. Only the first of joined errors counts, so
// that a failed rollback does not change the verdict on the failure that led to it.
func Transient(err error) bool {
	for err != nil {
		switch e := err.(type) { //nolint:errorlint // it walks the tree that errors.As would walk, without the later branches
		case *types.Error:
			return e.Code == types.ErrTryAgainLater
		case *noAnswer, *fs.PathError:
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
