package cdi

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// GateWait is how long the gate holds a container for its networks. It is well
	// below the 2 minutes that the kubelet allows for starting a container.
	GateWait = time.Minute
	// slowGateWait replaces GateWait for pods with networks that may take longer. It
	// is just below the kubelet's 2 minutes.
	slowGateWait = 105 * time.Second
	// gateMargin is added to the wait for the time after which the runtime ends a
	// gate that hangs.
	gateMargin = 10 * time.Second
)

// gateHook returns nadra-gate as an OCI createRuntime hook that waits for all networks
// of these claims.
func (w *Writer) gateHook(claims []string, wait time.Duration) *specs.Hook {
	timeout := int((wait + gateMargin).Seconds())
	return &specs.Hook{
		HookName: "createRuntime", Path: w.gate, Timeout: &timeout,
		Args: []string{gateName, "-records=" + w.Records, claimsArg + strings.Join(claims, ","), "-wait=" + wait.String()},
		Env:  []string{"GOTRACEBACK=none"}, // otherwise the hook gets the runtime's whole environment
	}
}

// claimsArg is the gate's argument with the UIDs of the claims, or of the pod, that it waits for.
const claimsArg = "-claims="

// GatedClaims returns the UIDs for which a container's hooks bring the gate.
func GatedClaims(hooks []*nri.Hook) (uids []string) {
	for _, hook := range hooks {
		if filepath.Base(hook.GetPath()) != gateName {
			continue
		}
		for _, arg := range hook.GetArgs() {
			if list, found := strings.CutPrefix(arg, claimsArg); found {
				uids = append(uids, strings.Split(list, ",")...)
			}
		}
	}
	return uids
}

// ContainerGate returns the same hook in NRI's form, for a container to which no CDI device brings it:
// one of a pod without a claim, or an ephemeral one.
func (w *Writer) ContainerGate(claims []string, ofPod []checkpoint.Record) *nri.Hook {
	hook := w.gateHook(claims, w.waitFor(ofPod))
	return &nri.Hook{Path: hook.Path, Args: hook.Args, Env: hook.Env, Timeout: nri.Int(*hook.Timeout)}
}

// waitFor returns how long the gate holds the containers of a pod with these records.
func (w *Writer) waitFor(ofPod []checkpoint.Record) time.Duration {
	if w.Slow(ofPod) {
		return slowGateWait
	}
	return GateWait
}

// installGate copies the gate to the host unless it is there. It renames the new file
// over the old one, because the old one may be running.
func (w *Writer) installGate() error {
	data, err := w.newGate()
	if err != nil || data == nil {
		return err
	}
	if err := atomicfile.RemoveTemporary(w.gate); err != nil {
		return err
	}
	return replaceFile(w.gate, data, 0o755)
}

// newGate returns the program to install, or nil if it is there. It makes the program's directory.
func (w *Writer) newGate() ([]byte, error) {
	data, err := os.ReadFile(w.GateSource)
	if err != nil {
		return nil, err
	}
	if old, err := os.ReadFile(w.gate); err == nil && bytes.Equal(old, data) {
		return nil, nil
	}
	return data, os.MkdirAll(filepath.Dir(w.gate), 0o750)
}
