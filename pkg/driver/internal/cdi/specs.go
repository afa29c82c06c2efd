package cdi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// gateName is the name of the gate's program.
const gateName = "nadra-gate"

// Options has the paths that a Writer needs.
type Options struct {
	// SpecDir is where the runtime looks for CDI specs, the same path in the host and
	// in the driver.
	SpecDir string
	// GateSource is the gate's binary in the driver's image.
	GateSource string
	// PluginDir is the driver's own directory below the kubelet's plugins directory,
	// the same path in the host. The gate is installed there.
	PluginDir string
	// Records is the directory of the claims' records, which the gate reads.
	Records string
	// Slow reports whether a pod with these records has networks that may take longer
	// than the gate usually waits.
	Slow func(ofPod []checkpoint.Record) bool
}

// Writer writes and removes CDI specs. Its methods may be called at the same time for
// different claims.
type Writer struct {
	Options
	gate string // the gate's binary on the host
}

// NewWriter returns a Writer. It writes nothing.
func NewWriter(o Options) *Writer {
	return &Writer{Options: o, gate: filepath.Join(o.PluginDir, gateName)}
}

// specName returns the name of a claim's spec without its extension.
func specName(claimUID string) string { return "net.nadra.dev-gate_" + claimUID }

func (w *Writer) specFile(claimUID string) string {
	return filepath.Join(w.SpecDir, specName(claimUID)+".json")
}

// Write writes the spec of one claim: its devices, and the gate. ofPod are all records of
// the claim's pod: a container may reference only one of the pod's claims, and its gate
// waits for the networks of all of them.
//
// The gate belongs to the spec and not to its devices, because a runtime applies the edits
// of a spec once for a container, and those of a device for every request that has it.
func (w *Writer) Write(claimUID string, ofPod []checkpoint.Record) error {
	devices, err := devicesOf(claimUID, ofPod)
	if err != nil {
		return fmt.Errorf("making the CDI spec of claim %s: %w", claimUID, err)
	}
	data, err := json.Marshal(&specs.Spec{
		Version: "0.6.0", Kind: kind, Devices: devices,
		ContainerEdits: specs.ContainerEdits{Hooks: []*specs.Hook{w.gateHook(checkpoint.ClaimUIDs(ofPod), w.waitFor(ofPod))}},
	})
	if err != nil {
		return fmt.Errorf("encoding the CDI spec of claim %s: %w", claimUID, err)
	}
	if err := os.MkdirAll(w.SpecDir, 0o755); err != nil {
		return fmt.Errorf("making the CDI directory: %w", err)
	}
	failpoint.Reach(failpoint.BeforeCDIWrite)
	if err := replaceFile(w.specFile(claimUID), data, 0o644); err != nil {
		return fmt.Errorf("writing the CDI spec of claim %s: %w", claimUID, err)
	}
	failpoint.Reach(failpoint.AfterCDIWrite)
	return nil
}

// Remove removes the spec of one claim. It is no error if there is none.
func (w *Writer) Remove(claimUID string) error {
	failpoint.Reach(failpoint.BeforeCDIRemove)
	if err := atomicfile.Remove(w.specFile(claimUID)); err != nil {
		return fmt.Errorf("removing the CDI spec of claim %s: %w", claimUID, err)
	}
	failpoint.Reach(failpoint.AfterCDIRemove)
	return nil
}

// Install installs the gate, writes the specs of all claims in records and removes
// other specs. The driver calls it at its start, because the runtime starts no
// container whose spec is missing and the kubelet does not ask for the spec again.
func (w *Writer) Install(records []checkpoint.Record) error {
	if err := w.installGate(); err != nil {
		return fmt.Errorf("installing the gate as %s: %w", w.gate, err)
	}
	for _, ofPod := range checkpoint.ByPod(records) {
		for _, uid := range checkpoint.ClaimUIDs(ofPod) {
			if err := w.Write(uid, ofPod); err != nil {
				return err
			}
		}
	}
	return w.removeStale(checkpoint.ClaimUIDs(records))
}

// Try returns the error with which Install would fail. It leaves the gate and the specs as they are.
func (w *Writer) Try() error {
	data, err := w.newGate()
	if err == nil && data != nil {
		err = atomicfile.Try(w.gate, data, 0o755)
	}
	if err != nil {
		return fmt.Errorf("installing the gate as %s: %w", w.gate, err)
	}
	if err := os.MkdirAll(w.SpecDir, 0o755); err != nil {
		return fmt.Errorf("making the CDI directory: %w", err)
	}
	if err := atomicfile.Try(w.specFile("try"), nil, 0o644); err != nil {
		return fmt.Errorf("writing CDI specs: %w", err)
	}
	return nil
}

// removeStale removes the specs of all other claims, and temporary files that a crash
// left. The runtime reads only names that end in .json or .yaml.
func (w *Writer) removeStale(claims []string) error {
	files, err := filepath.Glob(filepath.Join(w.SpecDir, specName("*")+".json*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		if atomicfile.IsTemporary(file) {
			errs = append(errs, atomicfile.Remove(file))
			continue
		}
		uid := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), specName("")), ".json")
		if !slices.Contains(claims, uid) {
			errs = append(errs, w.Remove(uid))
		}
	}
	return errors.Join(errs...)
}

// replaceFile replaces a file. It does not wait for the disk, because Install and Prepare write
// all files again after a reboot.
func replaceFile(path string, data []byte, mode fs.FileMode) error {
	file, err := atomicfile.WriteUnsynced(path, data, mode)
	if err != nil {
		return err
	}
	return file.Close()
}
