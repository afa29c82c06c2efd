package driver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// gateKind is the CDI kind of the devices that bring the gate into
	// containers; the device's name is the claim's UID.
	gateKind = "net.nadra.dev/gate"
	// gateWait is how long a container is held for its networks, well below
	// the kubelet's 2 minutes for starting one.
	gateWait = time.Minute
	// gateTimeout is the runtime's limit, for a gate that hangs.
	gateTimeout = gateWait + 10*time.Second
)

// gateHook brings nadra-gate, an OCI createRuntime hook, into the containers of
// pods with claims: by a CDI device where a container references the claim,
// and by NRI where it does not (design D4, third guard).
type gateHook struct {
	source  string // the gate in the driver's image
	binary  string // on the host, beside the driver's socket
	records string
	specs   *cdi.Cache
	specDir string
}

func newGateHook(cfg Config, records string) *gateHook {
	// The cache is for writing only; it must not read or watch the directory.
	cache, _ := cdi.NewCache(cdi.WithSpecDirs(cfg.CDIDir), cdi.WithAutoRefresh(false))
	return &gateHook{
		source:  cfg.GateBinary,
		binary:  filepath.Join(cfg.KubeletPluginsDir, cfg.DriverName, "nadra-gate"),
		records: records,
		specs:   cache,
		specDir: cfg.CDIDir,
	}
}

// gateDevice is the CDI name of a claim's gate.
func gateDevice(claimUID string) string { return gateKind + "=" + claimUID }

// args are the gate's for a pod with these claims.
func (g *gateHook) args(claims []string) []string {
	return []string{
		"nadra-gate", "-records=" + g.records, "-claims=" + strings.Join(claims, ","), "-wait=" + gateWait.String(),
	}
}

// specName is the name of a claim's CDI file without its extension.
func specName(claimUID string) string { return "net.nadra.dev-gate_" + claimUID }

// write makes the CDI device of one claim. It holds for all claims of the pod:
// a container may reference only one of them.
func (g *gateHook) write(claimUID string, podClaims []string) error {
	timeout := int(gateTimeout.Seconds())
	spec := &specs.Spec{
		Version: "0.6.0",
		Kind:    gateKind,
		Devices: []specs.Device{{Name: claimUID, ContainerEdits: specs.ContainerEdits{Hooks: []*specs.Hook{{
			HookName: cdi.CreateRuntimeHook, Path: g.binary, Args: g.args(podClaims), Timeout: &timeout,
			Env: []string{"GOTRACEBACK=none"}, // and not containerd's whole environment
		}}}}},
	}
	if err := os.MkdirAll(g.specDir, 0o755); err != nil {
		return fmt.Errorf("making the CDI directory: %w", err)
	}
	failpoint.Reach(failpoint.BeforeCDIWrite)
	if err := g.specs.WriteSpec(spec, specName(claimUID)+".json"); err != nil {
		return fmt.Errorf("writing the CDI spec of claim %s: %w", claimUID, err)
	}
	failpoint.Reach(failpoint.AfterCDIWrite)
	return nil
}

func (g *gateHook) remove(claimUID string) error {
	failpoint.Reach(failpoint.BeforeCDIRemove)
	if err := g.specs.RemoveSpec(specName(claimUID) + ".json"); err != nil {
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
	pods := map[string]map[string]bool{}
	for _, r := range records {
		if pods[r.Pod.UID] == nil {
			pods[r.Pod.UID] = map[string]bool{}
		}
		pods[r.Pod.UID][r.Claim.UID] = true
	}
	for _, claims := range pods {
		all := slices.Sorted(maps.Keys(claims))
		for _, uid := range all {
			if err := g.write(uid, all); err != nil {
				return err
			}
		}
	}
	return g.removeStale(records)
}

// removeStale removes the CDI files of claims that are no longer noted.
func (g *gateHook) removeStale(records []checkpoint.Record) error {
	files, err := filepath.Glob(filepath.Join(g.specDir, specName("*")+".json"))
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
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
	tmp := g.binary + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(tmp, data, 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, g.binary)
}

// adjustment adds the gate to a container that has it by no CDI device; nil
// when it has.
func (g *gateHook) adjustment(container *nri.Container, records []checkpoint.Record) *nri.ContainerAdjustment {
	claims := map[string]bool{}
	for _, r := range records {
		claims[r.Claim.UID] = true
	}
	for _, d := range container.GetCDIDevices() {
		if strings.HasPrefix(d.GetName(), gateKind+"=") {
			return nil
		}
	}
	a := &nri.ContainerAdjustment{}
	a.AddHooks(&nri.Hooks{CreateRuntime: []*nri.Hook{{
		Path: g.binary, Args: g.args(slices.Sorted(maps.Keys(claims))), Env: []string{"GOTRACEBACK=none"},
		Timeout: nri.Int(int(gateTimeout.Seconds())),
	}}})
	return a
}
