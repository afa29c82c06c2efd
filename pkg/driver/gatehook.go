package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// gateKind is the CDI kind of the devices that bring the gate into
	// containers; the device's name is the claim's UID. Devices of resource
	// pools are of the same kind: <claim UID>.<number>.
	gateKind = "net.nadra.dev/gate"
	// gateWait is how long a container is held for its networks, well below
	// the kubelet's 2 minutes for starting one; slowGateWait is for networks that
	// may take longer, and just below.
	gateWait     = time.Minute
	slowGateWait = 105 * time.Second
	// gateMargin is what the runtime's limit, for a gate that hangs, is above that.
	gateMargin = 10 * time.Second
)

// gateHook brings nadra-gate, an OCI createRuntime hook, into the containers of
// pods with claims, by a CDI device. Prepare refuses a pod with a container that
// references no claim: see refuseUngated.
type gateHook struct {
	source  string // the gate in the driver's image
	binary  string // on the host, beside the driver's socket
	records string
	specDir string
	limits  limits
}

func newGateHook(cfg Config, records string) *gateHook {
	return &gateHook{
		source:  cfg.GateBinary,
		binary:  filepath.Join(cfg.KubeletPluginsDir, cfg.DriverName, "nadra-gate"),
		records: records,
		specDir: cfg.CDIDir,
		limits:  limits{add: cfg.AddTimeout, del: cfg.DelTimeout},
	}
}

// gateDevice is the CDI name of a claim's gate.
func gateDevice(claimUID string) string { return gateKind + "=" + claimUID }

// args returns the gate's arguments for a pod with these claims.
func (g *gateHook) args(claims []string, wait time.Duration) []string {
	return []string{
		"nadra-gate", "-records=" + g.records, "-claims=" + strings.Join(claims, ","), "-wait=" + wait.String(),
	}
}

// wait returns how long the gate holds the containers of a pod with these records.
func (g *gateHook) wait(ofPod []checkpoint.Record) time.Duration {
	if g.limits.attaching(ofPod) > attachTime {
		return slowGateWait
	}
	return gateWait
}

// unfinished ends the name of a CDI file that is being written; the runtime
// reads only what ends in .json or .yaml.
const unfinished = ".new"

// specName is the name of a claim's CDI file without its extension.
func specName(claimUID string) string { return "net.nadra.dev-gate_" + claimUID }

func (g *gateHook) specFile(claimUID string) string {
	return filepath.Join(g.specDir, specName(claimUID)+".json")
}

// write makes the CDI devices of one claim, the gate and those of its hardware.
// The gate holds for all claims of the pod: a container may reference only one
// of them. ofPod are all records of the pod.
func (g *gateHook) write(claimUID string, ofPod []checkpoint.Record) error {
	wait := g.wait(ofPod)
	timeout := int((wait + gateMargin).Seconds())
	hardware, err := hardwareEdits(claimUID, sortedByIndex(ofPod))
	if err != nil {
		return fmt.Errorf("making the CDI spec of claim %s: %w", claimUID, err)
	}
	spec := &specs.Spec{
		Version: "0.6.0",
		Kind:    gateKind,
		Devices: append([]specs.Device{{Name: claimUID, ContainerEdits: specs.ContainerEdits{Hooks: []*specs.Hook{{
			HookName: "createRuntime", Path: g.binary, Args: g.args(claimsOf(ofPod), wait), Timeout: &timeout,
			Env: []string{"GOTRACEBACK=none"}, // and not containerd's whole environment
		}}}}}, hardware...),
	}
	if err := os.MkdirAll(g.specDir, 0o755); err != nil {
		return fmt.Errorf("making the CDI directory: %w", err)
	}
	failpoint.Reach(failpoint.BeforeCDIWrite)
	if err := writeSpec(g.specFile(claimUID), spec); err != nil {
		return fmt.Errorf("writing the CDI spec of claim %s: %w", claimUID, err)
	}
	failpoint.Reach(failpoint.AfterCDIWrite)
	return nil
}

// writeSpec replaces a file by renaming. The CDI library would, too, but what a
// crash leaves of its temporary files has a name that could be anybody's.
func writeSpec(path string, spec *specs.Spec) error {
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+unfinished, data, 0o644); err != nil {
		return errors.Join(err, removeFile(path+unfinished))
	}
	return os.Rename(path+unfinished, path)
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (g *gateHook) remove(claimUID string) error {
	failpoint.Reach(failpoint.BeforeCDIRemove)
	if err := removeFile(g.specFile(claimUID)); err != nil {
		return fmt.Errorf("removing the CDI spec of claim %s: %w", claimUID, err)
	}
	failpoint.Reach(failpoint.AfterCDIRemove)
	return nil
}

// install puts the gate where the runtime finds it, and restores the CDI files
// of all claims: without them the runtime starts no container of theirs, and
// the kubelet does not ask for them again.
func (g *gateHook) install(records []checkpoint.Record) error {
	if err := g.installBinary(); err != nil {
		return fmt.Errorf("installing the gate as %s: %w", g.binary, err)
	}
	for _, ofPod := range byPod(records) {
		for _, uid := range claimsOf(ofPod) {
			if err := g.write(uid, ofPod); err != nil {
				return err
			}
		}
	}
	return g.removeStale(records)
}

// removeStale removes the CDI files of claims that are no longer noted, and
// those that a crash left unfinished.
func (g *gateHook) removeStale(records []checkpoint.Record) error {
	files, err := filepath.Glob(filepath.Join(g.specDir, specName("*")+".json*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		if strings.HasSuffix(f, unfinished) {
			errs = append(errs, removeFile(f))
			continue
		}
		uid := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), specName("")), ".json")
		if !slices.ContainsFunc(records, func(r checkpoint.Record) bool { return r.Claim.UID == uid }) {
			errs = append(errs, g.remove(uid))
		}
	}
	return errors.Join(errs...)
}

// installBinary replaces the gate by renaming, as one may be running.
func (g *gateHook) installBinary() error {
	data, err := os.ReadFile(g.source)
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(g.binary); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(g.binary), 0o750); err != nil {
		return err
	}
	tmp := g.binary + unfinished
	if err := removeFile(tmp); err != nil {
		return err
	}
	if err := os.WriteFile(tmp, data, 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, g.binary)
}

// claimsOf returns the UIDs of the records' claims, sorted, each once.
func claimsOf(records []checkpoint.Record) []string {
	var uids []string
	for _, r := range records {
		uids = append(uids, r.Claim.UID)
	}
	slices.Sort(uids)
	return slices.Compact(uids)
}
